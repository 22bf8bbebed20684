// sum_j f(x_i, y_j) v_j for several vectors v: the reduction of `sweep` for a matrix-free product with a kernel matrix.
#include "pairs.cuh"

constexpr int ROWS = 128;                            // rows of X per thread block
constexpr int BLOCKS = 3;                            // thread blocks per multiprocessor: allows 168 registers per thread
constexpr int COLUMNS = sizeof(real) == 4 ? 16 : 8;  // vectors per thread block
constexpr int LEVEL = 16;                            // steps that are summed in `real` before they are added to the total

// The product of one row.  `map` gives the kernel value of rows i and j from the value of the formula.
template <class Map>
struct Product {
    const real* V;  // (rows of Y, q)
    int q, first;   // first vector of the thread block
    real* vs;       // STEP x COLUMNS in shared memory
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
    // Each thread writes its own row: once per sweep, so the strided access is negligible.
    __device__ __forceinline__ void write(real* __restrict__ out)
    {
        flush();
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            if (first + c < q) out[first + c] = real(total[c]);
    }
};
