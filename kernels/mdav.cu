// MDAV, Maximum Distance to Average Vector (Domingo-Ferrer and Torra 2005), one thread block per part.
// While 3k rows are free: r is the one furthest from their mean, s the one furthest from r; r and its k - 1 nearest form
// a group, then s and its k - 1 nearest of the rest.  With 2k to 3k - 1 free, only r's group.  The rest is the last group.
#include "parts.cuh"

// A part, and what is stored per row.  A row that a group has taken has gap < 0.
struct Part {
    const int* x;  // (d, stride)
    long long stride;
    int d, size;
    long long* gap;      // distance from the centre of the current group
    long long* labels;   // group of each row
    long long first;     // number of the part's first group
    long long* total;    // (d) sums of the free rows
    int *centre, *rest;  // (d) total = left * centre + rest for the `left` free rows; the mode of a categorical column
};

// Categorical columns: the level (rank among the part's codes) of each row, the code of each level, and the number of free
// rows that have it.  All (d, n), from the part's first row on.
struct Levels {
    const int *of, *codes;
    int* counts;
    long long n;
};

// Add a row to a group.  Sums and counts of column j belong to thread j until the next barrier.
template <bool GOWER>
__device__ __forceinline__ void take(const Part& part, int row, int group, const Levels& levels, const int* mismatch) {
    if (owns(row)) {
        part.gap[row] = -1;
        part.labels[row] = part.first + group;
    }
    for (int j = threadIdx.x; j < part.d; j += blockDim.x) {
        part.total[j] -= part.x[j * part.stride + row];
        if (GOWER && mismatch[j] >= 0) levels.counts[j * levels.n + levels.of[j * levels.n + row]] -= 1;
    }
}

// Find the modes of the categorical columns among the free rows (ties: the lowest code).
__device__ __forceinline__ void find_modes(const Part& part, const Levels& levels, const int* mismatch, Meeting& meeting) {
    __syncthreads();  // the counts are complete
    for (int j = 0; j < part.d; ++j) {
        if (mismatch[j] < 0) continue;
        Choice best = nothing_yet<true>();
        for (int level = threadIdx.x; level < part.size; level += blockDim.x)
            consider<true>(best, levels.counts[j * levels.n + level], level);
        const int mode = best_of_block<true>(best, meeting).row;
        if (threadIdx.x == 0) part.centre[j] = levels.codes[j * levels.n + mode];
    }
}

// Divide the sums by the number of free rows, with a rest; thread j has the sum of column j.
__device__ __forceinline__ void find_mean(const Part& part, int left) {
    for (int j = threadIdx.x; j < part.d; j += blockDim.x) {
        part.centre[j] = (int)(part.total[j] / left);
        part.rest[j] = (int)(part.total[j] - (long long)left * part.centre[j]);
    }
}

// Values that increase with the distance of a row from the mean of the `left` free rows, in whole numbers.
// Euclidean: left * |x - mean|^2 - |rest|^2 / left = left * |x - centre|^2 - 2 (x - centre)*rest.  Gower: left * D(x, mean).
template <bool GOWER>
__device__ __forceinline__ void distances_from_mean(const Part& part, int left, int first, int apart, const int* mismatch,
                                                    long long (&values)[AT_ONCE]) {
    int rows[AT_ONCE];
    long long shifts[AT_ONCE];
    rows_at_once(first, apart, part.size, rows);
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) values[r] = shifts[r] = 0;
    const int* x = part.x;
    for (int j = 0; j < part.d; ++j, x += part.stride) {
        const bool numeric = GOWER && mismatch[j] < 0;
        const long long total = numeric ? part.total[j] : 0, apart_by = GOWER ? (long long)left * mismatch[j] : 0;
        const int centre = numeric ? 0 : part.centre[j], rest = GOWER ? 0 : part.rest[j];
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            if (GOWER) {
                const long long e = (long long)left * x[rows[r]] - total;
                values[r] += numeric ? (e < 0 ? -e : e) : x[rows[r]] != centre ? apart_by : 0;
            } else {
                const int e = x[rows[r]] - centre;
                values[r] += (long long)e * e;
                shifts[r] += (long long)e * rest;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r)
        if (!GOWER) values[r] = left * values[r] - 2 * shifts[r];
}

// The free row furthest from the mean of the `left` free rows.
template <bool GOWER>
__device__ __forceinline__ int furthest_from_mean(const Part& part, int left, const Levels& levels, const int* mismatch,
                                                  Meeting& meeting) {
    if (GOWER)
        find_modes(part, levels, mismatch, meeting);
    else
        find_mean(part, left);
    __syncthreads();  // the mean is complete
    Choice best = nothing_yet<true>();
    const int apart = blockDim.x;
    for (int first = threadIdx.x; first < part.size; first += AT_ONCE * apart) {
        long long from_mean[AT_ONCE];
        distances_from_mean<GOWER>(part, left, first, apart, mismatch, from_mean);
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            const int row = first + r * apart;
            if (row < part.size && part.gap[row] >= 0) consider<true>(best, from_mean[r], row);
        }
    }
    return best_of_block<true>(best, meeting).row;
}

// Set the free rows' distances from `row`.
template <bool GOWER>
__device__ __forceinline__ void measure_from(const Part& part, int row, const int* mismatch) {
    const int apart = blockDim.x;
    for (int first = threadIdx.x; first < part.size; first += AT_ONCE * apart) {
        long long from_row[AT_ONCE];
        distances<GOWER>(part.x, part.stride, part.d, part.size, first, apart, row, mismatch, from_row);
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            const int other = first + r * apart;
            if (other < part.size && part.gap[other] >= 0) part.gap[other] = from_row[r];
        }
    }
}

// The free row with the least or the largest distance from the centre of the current group.
template <bool LARGEST>
__device__ __forceinline__ int choose(const Part& part, Meeting& meeting) {
    Choice best = nothing_yet<LARGEST>();
    for (int row = threadIdx.x; row < part.size; row += blockDim.x)
        if (part.gap[row] >= 0) consider<LARGEST>(best, part.gap[row], row);
    return best_of_block<LARGEST>(best, meeting).row;
}

template <bool GOWER>
__device__ __forceinline__ void take_nearest(const Part& part, int centre, int k, int group, const Levels& levels,
                                             const int* mismatch, Meeting& meeting) {
    take<GOWER>(part, centre, group, levels, mismatch);
    measure_from<GOWER>(part, centre, mismatch);
    for (int member = 1; member < k; ++member) take<GOWER>(part, choose<false>(part, meeting), group, levels, mismatch);
}

// Sums of the columns, one warp per column, and number of rows of each level.
template <bool GOWER>
__device__ __forceinline__ void count_rows(const Part& part, const Levels& levels, const int* mismatch) {
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    for (int j = threadIdx.x / WARP; j < part.d; j += warps) {
        long long sum = 0;
        for (int row = lane; row < part.size; row += WARP) sum += part.x[j * part.stride + row];
        sum = warp_sum(sum);
        if (lane == 0) part.total[j] = sum;
    }
    for (int j = 0; GOWER && j < part.d; ++j)
        if (mismatch[j] >= 0)
            for (int row = threadIdx.x; row < part.size; row += blockDim.x)
                atomicAdd(levels.counts + j * levels.n + levels.of[j * levels.n + row], 1);
}

template <bool GOWER>
__device__ __forceinline__ void group_part(const Part& part, int k, const Levels& levels, const int* mismatch,
                                           Meeting& meeting) {
    for (int row = threadIdx.x; row < part.size; row += blockDim.x) {
        part.gap[row] = 0;
        part.labels[row] = part.first + part.size / k - 1;  // of the rows that no other group takes
    }
    count_rows<GOWER>(part, levels, mismatch);
    __syncthreads();  // the sums are complete
    int left = part.size;
    for (int group = 0; left >= 2 * k; group += 2) {
        const bool two = left >= 3 * k;
        const int r = furthest_from_mean<GOWER>(part, left, levels, mismatch, meeting);
        take_nearest<GOWER>(part, r, k, group, levels, mismatch, meeting);
        if (two) {
            const int s = choose<true>(part, meeting);
            take_nearest<GOWER>(part, s, k, group + 1, levels, mismatch, meeting);
        }
        left -= two ? 2 * k : k;
    }
}

// x        : (d, n) whole numbers, rows sorted by part;  starts : (parts + 1) offsets of the parts
// first    : (parts) number of each part's first group;  k : at most the size of each part
// mismatch : (d) for Gower's metric, the distance of two categories, -1 for numeric columns; null for the Euclidean metric
// levels, codes, counts : (d, n) as in Levels, counts 0 at the start; may be null if no column is categorical
// room     : rows that fit shared memory, and one more, with d words and 1 of 8 bytes each; 16 d bytes for the thread block
// scratch  : (n), for parts with more rows than that; may be null if there is none
// labels   : (n) group of each row
extern "C" __global__ void __launch_bounds__(512, 1)
mdav(const int* __restrict__ x, const long long* __restrict__ starts, const long long* __restrict__ first, int d, int k,
     const int* __restrict__ mismatch, const int* __restrict__ levels, const int* __restrict__ codes, int* counts, int room,
     long long n, long long* scratch, long long* labels) {
    DYN_SHARED(long long, total);
    __shared__ long long values[SLOTS];
    __shared__ int rows[SLOTS];
    const long long start = starts[blockIdx.x], group = first[blockIdx.x];
    const int size = (int)(starts[blockIdx.x + 1] - start);
    const Levels of_part = {levels + start, codes + start, counts + start, n};
    Meeting meeting = {values, rows, 0};
    int *centre = reinterpret_cast<int*>(total + d), *rest = centre + d;
    long long* gap = total + 2 * d;
    if (size <= room) {
        int* copy = reinterpret_cast<int*>(gap + size);
        stage(x + start, n, d, size, copy);
        const Part part = {copy, staged_stride(size), d, size, gap, labels + start, group, total, centre, rest};
        mismatch ? group_part<true>(part, k, of_part, mismatch, meeting)
                 : group_part<false>(part, k, of_part, mismatch, meeting);
    } else {
        const Part part = {x + start, n, d, size, scratch + start, labels + start, group, total, centre, rest};
        mismatch ? group_part<true>(part, k, of_part, mismatch, meeting)
                 : group_part<false>(part, k, of_part, mismatch, meeting);
    }
}
