// Pairs of rows: one tile loop, a formula for a pair, and a reduction over pairs.
//
// A thread owns one row x of X.  The thread block loops over the rows of Y, STEP at a time, CHUNK columns at a
// time; both tiles are in shared memory, X transposed so that a warp reads 32 consecutive words, Y so that all threads
// read the same words (a broadcast).  After each STEP the reduction gets the STEP values of its row.
//
// A value is summed in a fixed order, on three levels, so that rounding hardly grows with the number of columns: GROUP
// columns, the groups of a chunk, the chunks.  Every kernel that uses the same formula therefore gets the same bits for the
// same two rows.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#ifndef DYN_SHARED  // a host build defines its own
#define DYN_SHARED(T, name)                                      \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    T* name = reinterpret_cast<T*>(dynamic_shared)
#endif

constexpr int STEP = sizeof(real) == 4 ? 16 : 8;  // as many as fit the registers
constexpr int CHUNK = 16;
constexpr int GROUP = 4;
// Paddings against bank conflicts: stores of a chunk go down the columns, at most one per bank (X), or two (Y, whose rows
// must also stay aligned to 16 bytes).
constexpr int Y_WIDTH = STEP + 16 / int(sizeof(real));
__host__ __device__ constexpr int x_width(int threads) { return threads + (sizeof(real) == 4 ? 2 : 1); }

// ------------------------------------------------------------------------------------------------- formulas
// column(k, d) reads the parameters of column k of d; add() adds the term of one column to a value.

struct Euclidean {  // sum (x - y)^2
    __device__ __forceinline__ real column(int, int) const { return real(1); }
    __device__ __forceinline__ real add(real value, real x, real y, real) const
    {
        const real t = x - y;
        return fma(t, t, value);
    }
};

struct Weighted {  // sum w (x - y)^2
    const real* weights;
    __device__ __forceinline__ real column(int k, int d) const { return k < d ? weights[k] : real(0); }
    __device__ __forceinline__ real add(real value, real x, real y, real w) const
    {
        const real t = x - y;
        return fma(w * t, t, value);
    }
};

struct Gower {  // sum w |x - y|, and w [x != y] for categorical columns, whose weight is passed as a negative number
    const real* weights;
    __device__ __forceinline__ real column(int k, int d) const { return k < d ? weights[k] : real(0); }
    __device__ __forceinline__ real add(real value, real x, real y, real w) const
    {
        const real t = fabs(x - y);
        return w < real(0) ? (t != real(0) ? value - w : value) : fma(w, t, value);
    }
};

struct Dot {  // sum x y
    __device__ __forceinline__ real column(int, int) const { return real(1); }
    __device__ __forceinline__ real add(real value, real x, real y, real) const { return fma(x, y, value); }
};

// ------------------------------------------------------------------------------------------------- tile loop

// Copy rows [first, first + ROWS) of A, columns [k0, k0 + CHUNK), into `tile`, transposed; 0 beyond the ends.
template <int ROWS, int WIDTH, int THREADS>
__device__ __forceinline__ void stage(const real* __restrict__ A, long long first, long long end, int d, int k0,
                                      real* tile)
{
#pragma unroll 4
    for (int t = threadIdx.x; t < ROWS * CHUNK; t += THREADS) {
        const int r = t / CHUNK, k = t % CHUNK;
        const bool inside = first + r < end && k0 + k < d;
        tile[k * WIDTH + r] = inside ? A[(first + r) * d + k0 + k] : real(0);
    }
}

// Loop over the rows [y_begin, y_end) of Y for the rows x_first + threadIdx.x of X.
// reduction.stage(y) may copy data of the STEP rows from y on; reduction.take(y, count, values) gets them.
template <int THREADS, class Formula, class Reduction>
__device__ __forceinline__ void sweep(const real* __restrict__ X, long long x_first, long long x_end,
                                      const real* __restrict__ Y, long long y_begin, long long y_end, int d, real* xs,
                                      real* ys, const Formula& formula, Reduction& reduction)
{
    for (long long y = y_begin; y < y_end; y += STEP) {
        real total[STEP];
#pragma unroll
        for (int s = 0; s < STEP; ++s) total[s] = real(0);
        for (int k0 = 0; k0 < d; k0 += CHUNK) {
            __syncthreads();  // all threads have read the tiles that are overwritten now
            if (d > CHUNK || y == y_begin)
                stage<THREADS, x_width(THREADS), THREADS>(X, x_first, x_end, d, k0, xs);
            stage<STEP, Y_WIDTH, THREADS>(Y, y, y_end, d, k0, ys);
            if (k0 == 0) reduction.stage(y, y_end);
            __syncthreads();
            real part[STEP];
#pragma unroll
            for (int s = 0; s < STEP; ++s) part[s] = real(0);
#pragma unroll 1
            for (int k = 0; k < CHUNK && k0 + k < d; k += GROUP) {  // beyond the last column both tiles hold 0
                real x[GROUP], column[GROUP];
#pragma unroll
                for (int g = 0; g < GROUP; ++g) {
                    x[g] = xs[(k + g) * x_width(THREADS) + threadIdx.x];
                    column[g] = formula.column(k0 + k + g, d);
                }
#pragma unroll
                for (int s = 0; s < STEP; ++s) {
                    real sum = real(0);
#pragma unroll
                    for (int g = 0; g < GROUP; ++g) sum = formula.add(sum, x[g], ys[(k + g) * Y_WIDTH + s], column[g]);
                    part[s] += sum;
                }
            }
#pragma unroll
            for (int s = 0; s < STEP; ++s) total[s] += part[s];
        }
        const int count = y_end - y < STEP ? int(y_end - y) : STEP;
        reduction.take(y, count, total);
    }
}
