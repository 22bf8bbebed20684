// RBF affinity inside the parts of a partition, not stored: S_ij = exp(-gamma ||x_i - x_j||^2), 0 on the diagonal.
//
// X and V are sorted by part.  A thread block owns up to ROWS rows of one part, from `tile_first` on, and loops over all
// rows of that part, `tile_part`, whose rows are [starts[part], starts[part + 1]) and whose gamma is gammas[part].
#include "products.cuh"

struct Rbf {
    real gamma;
    long long row;
    __device__ __forceinline__ real operator()(real distance, long long other) const
    {
        return other == row ? real(0) : exp(-gamma * distance);
    }
};

// sum_j S_ij: each STEP is summed in `real`, the steps in double.
struct Degree {
    Rbf map;
    double total;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long y, int count, const real (&values)[STEP])
    {
        real part = real(0);
#pragma unroll
        for (int s = 0; s < STEP; ++s) part += s < count ? map(values[s], y + s) : real(0);
        total += double(part);
    }
};

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
degrees(const real* __restrict__ X, const long long* __restrict__ starts, const real* __restrict__ gammas,
        const long long* __restrict__ tile_part, const long long* __restrict__ tile_first, int d,
        real* __restrict__ out)
{
    __shared__ __align__(16) real xs[CHUNK * x_width(ROWS)];
    __shared__ __align__(16) real ys[CHUNK * Y_WIDTH];
    const long long part = tile_part[blockIdx.x], first = tile_first[blockIdx.x], row = first + threadIdx.x;
    const long long begin = starts[part], end = starts[part + 1];
    Degree degree{Rbf{gammas[part], row}, 0};
    sweep<ROWS>(X, first, end, X, begin, end, d, xs, ys, Euclidean{}, degree);
    if (row < end) out[row] = real(degree.total);
}

// S V for COLUMNS of the q vectors in V, from blockIdx.y * COLUMNS on.
extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
product(const real* __restrict__ X, const long long* __restrict__ starts, const real* __restrict__ gammas,
        const long long* __restrict__ tile_part, const long long* __restrict__ tile_first, int d,
        const real* __restrict__ V, int q, real* __restrict__ out)
{
    __shared__ __align__(16) real xs[CHUNK * x_width(ROWS)];
    __shared__ __align__(16) real ys[CHUNK * Y_WIDTH];
    __shared__ __align__(16) real vs[STEP * COLUMNS];
    const long long part = tile_part[blockIdx.x], first = tile_first[blockIdx.x], row = first + threadIdx.x;
    const long long begin = starts[part], end = starts[part + 1];
    Product<Rbf> sums(V, q, blockIdx.y * COLUMNS, vs, Rbf{gammas[part], row});
    sweep<ROWS>(X, first, end, X, begin, end, d, xs, ys, Euclidean{}, sums);
    if (row < end) sums.write(out + row * q);
}
