// Code shared by the kernels with one thread block per part of a partition: the metric between two rows, and the choice
// of one row by the thread block.  Rows are stored column by column, so that consecutive threads, which own consecutive
// rows, read consecutive words.  Thread t owns the rows t, t + blockDim.x, … of its part: only it writes their state, so
// that one barrier per choice is enough.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#ifndef DYN_SHARED  // a host build defines its own
#define DYN_SHARED(type, name)                                       \
    extern __shared__ __align__(16) unsigned char dynamic_shared_[]; \
    type* name = reinterpret_cast<type*>(dynamic_shared_)
#endif

constexpr int WARP = 32;
constexpr int SLOTS = 2 * WARP;  // two alternating sets, one slot per warp
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int NO_ROW = 0x7fffffff;
constexpr int AT_ONCE = 4;  // rows of a thread that are processed together: they share the loads of a point
#define INFINITE (real(1) / real(0))

// A product rounded by itself, as in NumPy.  Fused with the following sum it would be more accurate, but rows that
// tie on the host would not tie here, and groups of categorical rows would depend on the device.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
#else
__device__ __forceinline__ real times(real a, real b) { return a * b; }
#endif

// The distance of two rows.  Euclidean: Σ_j (x_j − y_j)² of columns that are scaled by their weights; weights is null.
// Gower: Σ_j w_j g_j with g_j = |x_j − y_j|, or [x_j ≠ y_j] where categorical.
struct Metric {
    const real* weights;
    const unsigned char* categorical;
};

// The term of column j, in which two rows differ by e, of their distance.

template <bool GOWER>
__device__ __forceinline__ real column_distance(real e, int j, const Metric& metric) {
    if (!GOWER) return e * e;
    const real gap = metric.categorical[j] ? (e != real(0) ? real(1) : real(0)) : fabs(e);
    return times(gap, metric.weights[j]);
}

// Distances of `scale` times the rows first, first + apart, … (AT_ONCE of them, those below `size`) from a point whose
// column j is point[j * point_stride].
template <bool GOWER>
__device__ __forceinline__ void distances(const real* x, long long stride, int d, int size, int first, int apart,
                                          real scale, const real* point, long long point_stride,
                                          const Metric& metric, real (&sums)[AT_ONCE]) {
    int rows[AT_ONCE];
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) {
        rows[r] = first + r * apart < size ? first + r * apart : first;  // beyond the end: any row, not used
        sums[r] = real(0);
    }
    for (int j = 0; j < d; ++j, x += stride, point += point_stride) {
        const real y = *point;
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) sums[r] += column_distance<GOWER>(scale * x[rows[r]] - y, j, metric);
    }
}

// A row, and the value by which it is chosen.
struct Choice {
    real value;
    int row;
};

// Choose a row if its value is better; ties go to the lower row.
template <bool LARGEST>
__device__ __forceinline__ void consider(Choice& best, real value, int row) {
    if ((LARGEST ? value > best.value : value < best.value) || (value == best.value && row < best.row)) {
        best.value = value;
        best.row = row;
    }
}

template <bool LARGEST>
__device__ __forceinline__ Choice nothing_yet() {
    return {LARGEST ? -INFINITE : INFINITE, NO_ROW};
}

// The best choice of a warp, in all its lanes.
template <bool LARGEST>
__device__ __forceinline__ Choice best_of_warp(Choice mine) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        const real value = __shfl_xor_sync(ALL_LANES, mine.value, apart);
        const int row = __shfl_xor_sync(ALL_LANES, mine.row, apart);
        consider<LARGEST>(mine, value, row);
    }
    return mine;
}

// Reduction over the warps of a thread block: SLOTS values and rows in shared memory, and the number of reductions.
struct Meeting {
    real* values;
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

__device__ __forceinline__ bool owns(int row) { return row % (int)blockDim.x == (int)threadIdx.x; }

// Stride of the columns of a part in shared memory: odd, so that the columns of one row are in different banks.
__device__ __forceinline__ int staged_stride(int size) { return size | 1; }

// Copy the rows of a part from (d, n) into (d, staged_stride).
template <typename Number>
__device__ __forceinline__ void stage(const Number* x, long long n, int d, int size, Number* copy) {
    for (int j = 0; j < d; ++j)
        for (int row = threadIdx.x; row < size; row += blockDim.x) copy[j * staged_stride(size) + row] = x[j * n + row];
    __syncthreads();
}
