// Code shared by the kernels with one thread block per part of a partition: the metric between two rows, and the choice
// of one row by the thread block.  Rows are whole numbers, stored column by column, so that consecutive threads, which own
// consecutive rows, read consecutive words.  Their distances and sums are 64-bit integers: they are exact, whatever the
// order, and so are ties.  Thread t owns the rows t, t + blockDim.x, ... of its part: only it writes their state, so that one
// barrier per choice is enough.
#ifndef DYN_SHARED  // a host build defines its own
#define DYN_SHARED(type, name)                                       \
    extern __shared__ __align__(16) unsigned char dynamic_shared_[]; \
    type* name = reinterpret_cast<type*>(dynamic_shared_)
#endif

#ifndef LANES  // of a warp; a host build with one lane per warp defines 1
#define LANES 32
#endif
constexpr int WARP = LANES;
constexpr int SLOTS = 2 * WARP;  // two alternating sets, one slot per warp
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int NO_ROW = 0x7fffffff;
constexpr int AT_ONCE = 4;  // rows of a thread that are processed together: they share the loads of a point
constexpr long long LARGEST_VALUE = 0x7fffffffffffffffll;

// The term of a column, in which two rows differ by e, of their distance: e^2 for the squared Euclidean one.  Gower's is |e|,
// or for a categorical column the distance of two categories (mismatch, -1 for a numeric column).
template <bool GOWER>
__device__ __forceinline__ long long column_distance(int e, int mismatch) {
    if (!GOWER) return (long long)e * e;
    return mismatch < 0 ? abs(e) : e != 0 ? mismatch : 0;
}

// The AT_ONCE rows first, first + apart, ...; instead of those beyond the end the first one, whose values are not used.
__device__ __forceinline__ void rows_at_once(int first, int apart, int size, int (&rows)[AT_ONCE]) {
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) rows[r] = first + r * apart < size ? first + r * apart : first;
}

// Distances of the rows first, first + apart, ... from a row of the part.
template <bool GOWER>
__device__ __forceinline__ void distances(const int* x, long long stride, int d, int size, int first, int apart, int other,
                                          const int* mismatch, long long (&sums)[AT_ONCE]) {
    int rows[AT_ONCE];
    rows_at_once(first, apart, size, rows);
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) sums[r] = 0;
    for (int j = 0; j < d; ++j, x += stride) {
        const int y = x[other], categories = GOWER ? mismatch[j] : 0;
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) sums[r] += column_distance<GOWER>(x[rows[r]] - y, categories);
    }
}

// A row, and the value by which it is chosen.
struct Choice {
    long long value;
    int row;
};

// Choose a row if its value is better; ties go to the lower row.
template <bool LARGEST>
__device__ __forceinline__ void consider(Choice& best, long long value, int row) {
    if ((LARGEST ? value > best.value : value < best.value) || (value == best.value && row < best.row)) {
        best.value = value;
        best.row = row;
    }
}

template <bool LARGEST>
__device__ __forceinline__ Choice nothing_yet() {
    return {LARGEST ? -LARGEST_VALUE : LARGEST_VALUE, NO_ROW};
}

// The best choice of a warp, in all its lanes.
template <bool LARGEST>
__device__ __forceinline__ Choice best_of_warp(Choice mine) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        const long long value = __shfl_xor_sync(ALL_LANES, mine.value, apart);
        const int row = __shfl_xor_sync(ALL_LANES, mine.row, apart);
        consider<LARGEST>(mine, value, row);
    }
    return mine;
}

// Reduction over the warps of a thread block: SLOTS values and rows in shared memory, and the number of reductions.
struct Meeting {
    long long* values;
    int* rows;
    int turn;
};

// The best choice of a thread block, in all its threads.  A slot is rewritten only two reductions later, after the barrier
// of the one between: one barrier is enough.  It also makes earlier writes visible to the thread block.
template <bool LARGEST>
__device__ __forceinline__ Choice best_of_block(Choice mine, Meeting& meeting) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int set = (meeting.turn++ & 1) * WARP;
    mine = best_of_warp<LARGEST>(mine);
    if (lane == 0) {
        meeting.values[set + warp] = mine.value;
        meeting.rows[set + warp] = mine.row;
    }
    __syncthreads();
    const int slot = set + (lane < warps ? lane : 0);  // comparing a slot twice changes nothing
    mine.value = meeting.values[slot];
    mine.row = meeting.rows[slot];
    return best_of_warp<LARGEST>(mine);
}

// The sum of a value over the lanes of a warp, in all of them.
__device__ __forceinline__ long long warp_sum(long long value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(ALL_LANES, value, apart);
    return value;
}

__device__ __forceinline__ bool owns(int row) { return row % (int)blockDim.x == (int)threadIdx.x; }

// Stride of the columns of a part in shared memory: odd, so that the columns of one row are in different banks.
__device__ __forceinline__ int staged_stride(int size) { return size | 1; }

// Copy the rows of a part from (d, n) into (d, staged_stride).
__device__ __forceinline__ void stage(const int* x, long long n, int d, int size, int* copy) {
    for (int j = 0; j < d; ++j)
        for (int row = threadIdx.x; row < size; row += blockDim.x) copy[j * staged_stride(size) + row] = x[j * n + row];
    __syncthreads();
}
