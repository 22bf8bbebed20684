// K(X, Y) W without storing the kernel matrix: the projection of rows X (n, d) on components with weights W (m, q) of the
// rows Y (m, d).  A thread block owns ROWS rows of X and COLUMNS components.
#include "products.cuh"

struct Power {  // (x*y + constant)^degree
    real constant;
    int degree;
    __device__ __forceinline__ real operator()(real dot, long long) const
    {
        real base = dot + constant, value = real(1);
        for (int left = degree; left > 0; left >>= 1) {
            if (left & 1) value *= base;
            base *= base;
        }
        return value;
    }
};

struct Bell {  // exp(-gamma ||x - y||^2)
    real gamma;
    __device__ __forceinline__ real operator()(real distance, long long) const { return exp(-gamma * distance); }
};

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
polynomial(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ W, long long n, long long m,
           int d, int q, real constant, int degree, real* __restrict__ out)
{
    __shared__ __align__(16) real xs[CHUNK * x_width(ROWS)];
    __shared__ __align__(16) real ys[CHUNK * Y_WIDTH];
    __shared__ __align__(16) real vs[STEP * COLUMNS];
    const long long first = (long long)blockIdx.x * ROWS, row = first + threadIdx.x;
    Product<Power> sums(W, q, blockIdx.y * COLUMNS, vs, Power{constant, degree});
    sweep<ROWS>(X, first, n, Y, 0, m, d, xs, ys, Dot{}, sums);
    if (row < n) sums.write(out + row * q);
}

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
rbf(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ W, long long n, long long m, int d,
    int q, real gamma, real* __restrict__ out)
{
    __shared__ __align__(16) real xs[CHUNK * x_width(ROWS)];
    __shared__ __align__(16) real ys[CHUNK * Y_WIDTH];
    __shared__ __align__(16) real vs[STEP * COLUMNS];
    const long long first = (long long)blockIdx.x * ROWS, row = first + threadIdx.x;
    Product<Bell> sums(W, q, blockIdx.y * COLUMNS, vs, Bell{gamma});
    sweep<ROWS>(X, first, n, Y, 0, m, d, xs, ys, Euclidean{}, sums);
    if (row < n) sums.write(out + row * q);
}
