// MDAV, Maximum Distance to Average Vector (Domingo-Ferrer and Torra 2005), one thread block per part.
// While 3k rows are free: r is the one furthest from their mean, s the one furthest from r; r and its k − 1 nearest form
// a group, then s and its k − 1 nearest of the rest.  With 2k to 3k − 1 free, only r's group.  The rest is the last group.
#include "parts.cuh"

// A part, and what is stored per row.  A row that a group has taken has gap < 0.
struct Part {
    const real* x;  // (d, stride)
    long long stride;
    int d, size;
    real* gap;          // distance from the centre of the current group
    long long* labels;  // group of each row
    long long first;    // number of the part's first group
    real* total;        // (d) sums of the free rows
    real* centre;       // (d) mean of the free rows, with the modes of categorical columns (Gower)
};

// Categorical columns: the level (rank among the part's values) of each row, the value of each level, and the number
// of free rows that have it.  All (d, n), from the part's first row on.
struct Levels {
    const int* of;
    const real* values;
    int* counts;
    long long n;
};

// Add a row to a group.  Sums and counts of column j belong to thread j until the next barrier.
template <bool GOWER>
__device__ __forceinline__ void take(const Part& part, int row, int group, const Levels& levels, const Metric& metric) {
    if (owns(row)) {
        part.gap[row] = real(-1);
        part.labels[row] = part.first + group;
    }
    for (int j = threadIdx.x; j < part.d; j += blockDim.x) {
        part.total[j] -= part.x[j * part.stride + row];
        if (GOWER && metric.categorical[j]) levels.counts[j * levels.n + levels.of[j * levels.n + row]] -= 1;
    }
}

// Set the centre of the free rows, for Gower's metric: means, and modes of categorical columns (ties: the lowest).
__device__ __forceinline__ void find_centre(const Part& part, int left, const Levels& levels, const Metric& metric,
                                            Meeting& meeting) {
    for (int j = 0; j < part.d; ++j) {
        if (!metric.categorical[j]) {
            if (threadIdx.x == 0) part.centre[j] = part.total[j] / real(left);
            continue;
        }
        Choice best = nothing_yet<true>();
        for (int level = threadIdx.x; level < part.size; level += blockDim.x)
            consider<true>(best, real(levels.counts[j * levels.n + level]), level);
        const int mode = best_of_block<true>(best, meeting).row;
        if (threadIdx.x == 0) part.centre[j] = levels.values[j * levels.n + mode];
    }
    __syncthreads();
}

// The free row furthest from the mean of the `left` free rows.  Euclidean: left · x is compared with the sums, so that
// whole numbers stay whole and ties stay ties.
template <bool GOWER>
__device__ __forceinline__ int furthest_from_mean(const Part& part, int left, const Levels& levels, const Metric& metric,
                                                  Meeting& meeting) {
    __syncthreads();  // the sums and counts are complete
    if (GOWER) find_centre(part, left, levels, metric, meeting);
    Choice best = nothing_yet<true>();
    const int apart = blockDim.x;
    for (int first = threadIdx.x; first < part.size; first += AT_ONCE * apart) {
        real from_mean[AT_ONCE];
        distances<GOWER>(part.x, part.stride, part.d, part.size, first, apart, GOWER ? real(1) : real(left),
                         GOWER ? part.centre : part.total, 1, metric, from_mean);
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            const int row = first + r * apart;
            if (row < part.size && part.gap[row] >= real(0)) consider<true>(best, from_mean[r], row);
        }
    }
    return best_of_block<true>(best, meeting).row;
}

// Set the free rows' distances from `row`.
template <bool GOWER>
__device__ __forceinline__ void measure_from(const Part& part, int row, const Metric& metric) {
    const int apart = blockDim.x;
    for (int first = threadIdx.x; first < part.size; first += AT_ONCE * apart) {
        real from_row[AT_ONCE];
        distances<GOWER>(part.x, part.stride, part.d, part.size, first, apart, real(1), part.x + row, part.stride, metric,
                         from_row);
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            const int other = first + r * apart;
            if (other < part.size && part.gap[other] >= real(0)) part.gap[other] = from_row[r];
        }
    }
}

// The free row with the least or the largest distance from the centre of the current group.
template <bool LARGEST>
__device__ __forceinline__ int choose(const Part& part, Meeting& meeting) {
    Choice best = nothing_yet<LARGEST>();
    for (int row = threadIdx.x; row < part.size; row += blockDim.x)
        if (part.gap[row] >= real(0)) consider<LARGEST>(best, part.gap[row], row);
    return best_of_block<LARGEST>(best, meeting).row;
}

template <bool GOWER>
__device__ __forceinline__ void take_nearest(const Part& part, int centre, int k, int group, const Levels& levels,
                                             const Metric& metric, Meeting& meeting) {
    take<GOWER>(part, centre, group, levels, metric);
    measure_from<GOWER>(part, centre, metric);
    for (int member = 1; member < k; ++member) take<GOWER>(part, choose<false>(part, meeting), group, levels, metric);
}

// Sums of the columns, one warp per column, and number of rows of each level.
template <bool GOWER>
__device__ __forceinline__ void count_rows(const Part& part, const Levels& levels, const Metric& metric) {
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    for (int j = threadIdx.x / WARP; j < part.d; j += warps) {
        real sum = real(0);
        for (int row = lane; row < part.size; row += WARP) sum += part.x[j * part.stride + row];
        for (int apart = WARP / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, apart);
        if (lane == 0) part.total[j] = sum;
    }
    for (int j = 0; GOWER && j < part.d; ++j)
        if (metric.categorical[j])
            for (int row = threadIdx.x; row < part.size; row += blockDim.x)
                atomicAdd(levels.counts + j * levels.n + levels.of[j * levels.n + row], 1);
}

template <bool GOWER>
__device__ __forceinline__ void group_part(const Part& part, int k, const Levels& levels, const Metric& metric,
                                           Meeting& meeting) {
    for (int row = threadIdx.x; row < part.size; row += blockDim.x) {
        part.gap[row] = real(0);
        part.labels[row] = part.first + part.size / k - 1;  // of the rows that no other group takes
    }
    count_rows<GOWER>(part, levels, metric);
    int left = part.size;
    for (int group = 0; left >= 2 * k; group += 2) {
        const bool two = left >= 3 * k;
        const int r = furthest_from_mean<GOWER>(part, left, levels, metric, meeting);
        take_nearest<GOWER>(part, r, k, group, levels, metric, meeting);
        if (two) {
            const int s = choose<true>(part, meeting);
            take_nearest<GOWER>(part, s, k, group + 1, levels, metric, meeting);
        }
        left -= two ? 2 * k : k;
    }
}

// x        : (d, n) rows sorted by part;  starts : (parts + 1) offsets of the parts
// first    : (parts) number of each part's first group;  k : at most the size of each part
// weights  : (d) shares of the columns, or null for the Euclidean metric;  categorical : (d)
// levels, level_values, counts : (d, n) as in Levels, counts 0 at the start; may be null if no column is categorical
// room     : rows that fit shared memory, with d + 1 numbers each, and one more; 2 d for the thread block
// scratch  : (n), for parts with more rows than that; may be null if there is none
// labels   : (n) group of each row
extern "C" __global__ void __launch_bounds__(512, 1)
mdav(const real* __restrict__ x, const long long* __restrict__ starts, const long long* __restrict__ first, int d, int k,
     const real* __restrict__ weights, const unsigned char* __restrict__ categorical, const int* __restrict__ levels,
     const real* __restrict__ level_values, int* counts, int room, long long n, real* scratch, long long* labels) {
    DYN_SHARED(real, shared);
    __shared__ real values[SLOTS];
    __shared__ int rows[SLOTS];
    const long long start = starts[blockIdx.x];
    const int size = (int)(starts[blockIdx.x + 1] - start);
    const Metric metric = {weights, categorical};
    const Levels of_part = {levels + start, level_values + start, counts + start, n};
    Meeting meeting = {values, rows, 0};
    real *total = shared, *centre = shared + d, *copy = shared + 2 * d;
    if (size <= room) {
        stage(x + start, n, d, size, copy);
        const int stride = staged_stride(size);
        const Part part = {copy, stride, d, size, copy + d * stride, labels + start, first[blockIdx.x], total, centre};
        weights ? group_part<true>(part, k, of_part, metric, meeting) : group_part<false>(part, k, of_part, metric, meeting);
    } else {
        const Part part = {x + start, n, d, size, scratch + start, labels + start, first[blockIdx.x], total, centre};
        weights ? group_part<true>(part, k, of_part, metric, meeting) : group_part<false>(part, k, of_part, metric, meeting);
    }
}
