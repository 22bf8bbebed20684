// What the kernels that give each part of a partition to one thread block share: the metric between two rows, and
// the block-wide choice of one row.  Rows lie column by column, so that neighbouring threads, which own neighbouring
// rows, read neighbouring words.  Thread t owns the rows t, t + blockDim.x, … of its part: only it writes what is
// kept of them, so that one barrier a choice is enough.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#ifndef DYN_SHARED  // a host build brings its own
#define DYN_SHARED(type, name)                                       \
    extern __shared__ __align__(16) unsigned char dynamic_shared_[]; \
    type* name = reinterpret_cast<type*>(dynamic_shared_)
#endif

constexpr int WARP = 32;
constexpr int SLOTS = 2 * WARP;  // two sets that take turns, one slot a warp
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int NO_ROW = 0x7fffffff;
constexpr int AT_ONCE = 4;  // rows of a thread whose distances are summed side by side: one load of a point serves them
#define INFINITE (real(1) / real(0))

// A product rounded by itself, as in NumPy.  Fused with the sum that follows, it would be closer to the exact value,
// but rows that tie there would not tie here, and groups of categorical rows would depend on the device.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
#else
__device__ __forceinline__ real times(real a, real b) { return a * b; }
#endif

// How far rows are apart.  Euclidean: Σ_j (x_j − y_j)², any weights being in the columns already; weights is null.
// Gower: Σ_j w_j g_j with g_j = |x_j − y_j|, or [x_j ≠ y_j] where categorical.
struct Metric {
    const real* weights;
    const unsigned char* categorical;
};

// What column j, in which two rows differ by e, adds to their distance.

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
        rows[r] = first + r * apart < size ? first + r * apart : first;  // past the end: any row, nobody asks for it
        sums[r] = real(0);
    }
    for (int j = 0; j < d; ++j, x += stride, point += point_stride) {
        const real y = *point;
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) sums[r] += column_distance<GOWER>(scale * x[rows[r]] - y, j, metric);
    }
}

// A row, and the value for which it may be chosen.
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

// The best choice of a warp, known to all its lanes.
template <bool LARGEST>
__device__ __forceinline__ Choice best_of_warp(Choice mine) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        const real value = __shfl_xor_sync(ALL_LANES, mine.value, apart);
        const int row = __shfl_xor_sync(ALL_LANES, mine.row, apart);
        consider<LARGEST>(mine, value, row);
    }
    return mine;
}

// Where the warps of a block meet: SLOTS values and rows in shared memory, and how often they have met.
struct Meeting {
    real* values;
    int* rows;
    int turn;
};

// The best choice of a block, known to all its threads.  A slot is written again only two meetings later, after the
// barrier of the one between: one barrier is enough.  It also makes what was written before it visible to the block.
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
    const int slot = set + (lane < warps ? lane : 0);  // a slot that is considered twice changes nothing
    mine.value = meeting.values[slot];
    mine.row = meeting.rows[slot];
    return best_of_warp<LARGEST>(mine);
}

__device__ __forceinline__ bool owns(int row) { return row % (int)blockDim.x == (int)threadIdx.x; }

// Distance between the columns of a part in shared memory: odd, so that the columns of one row lie in different banks.
__device__ __forceinline__ int staged_stride(int size) { return size | 1; }

// Copy a part's rows from (d, n) into (d, staged_stride).
template <typename Number>
__device__ __forceinline__ void stage(const Number* x, long long n, int d, int size, Number* copy) {
    for (int j = 0; j < d; ++j)
        for (int row = threadIdx.x; row < size; row += blockDim.x) copy[j * staged_stride(size) + row] = x[j * n + row];
    __syncthreads();
}
