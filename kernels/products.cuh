// Σ_j f(x_i, y_j) v_j for a block of vectors v: what a matrix-free product with a kernel matrix needs of `sweep`.
#include "pairs.cuh"

constexpr int ROWS = 128;                            // rows of X a block
constexpr int BLOCKS = 3;                            // blocks a multiprocessor: leaves a thread 168 registers
constexpr int COLUMNS = sizeof(real) == 4 ? 16 : 8;  // vectors a block
constexpr int LEVEL = 16;                            // steps that are summed in `real` before they join the total

// The product of one row.  `map` turns a value of the formula into the kernel's value for rows i and j.
template <class Map>
struct Product {
    const real* V;  // (rows of Y, q)
    int q, first;   // the block's first vector
    real* vs;       // STEP × COLUMNS in shared memory
    Map map;
    real sums[COLUMNS];
    double total[COLUMNS];
    int steps;

    __device__ __forceinline__ Product(const real* V, int q, int first, real* vs, const Map& map)
        : V(V), q(q), first(first), vs(vs), map(map), steps(0)
    {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            sums[c] = real(0);
            total[c] = 0;
        }
    }
    __device__ __forceinline__ void stage(long long y, long long end)
    {
        for (int t = threadIdx.x; t < STEP * COLUMNS; t += ROWS) {
            const int s = t / COLUMNS, c = t % COLUMNS;
            vs[t] = y + s < end && first + c < q ? V[(y + s) * q + first + c] : real(0);
        }
    }
    __device__ __forceinline__ void take(long long y, int count, const real (&values)[STEP])
    {
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            const real weight = s < count ? map(values[s], y + s) : real(0);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) sums[c] = fma(weight, vs[s * COLUMNS + c], sums[c]);
        }
        if (++steps % LEVEL == 0) flush();
    }
    __device__ __forceinline__ void flush()
    {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            total[c] += double(sums[c]);
            sums[c] = real(0);
        }
    }
    // Each thread writes its own row: once a sweep, so the strided access does not count.
    __device__ __forceinline__ void write(real* __restrict__ out)
    {
        flush();
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            if (first + c < q) out[first + c] = real(total[c]);
    }
};
