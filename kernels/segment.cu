// Reductions over stretches of rows, repeatable to the bit: the order of every sum is fixed by the stretch alone.
//
// Rows order[bounds[s]] … order[bounds[s + 1] − 1] of X (n, d) make up the stretch s; without `order` the rows themselves do.
// A warp owns a stretch.  Its lanes stand side by side on `lanes` columns and 32 / lanes rows; each walks down its column,
// and the lanes of a column are joined in ascending order at the end.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

constexpr int THREADS = 128;  // with one block asked for: else ptxas spills for more blocks than there is work for
constexpr unsigned int ALL = 0xffffffffu;

struct Add {
    typedef double Value;
    static __device__ __forceinline__ Value none() { return 0; }
    static __device__ __forceinline__ Value join(Value a, Value b) { return a + b; }
};
struct Least {  // a NaN stays
    typedef real Value;
    static __device__ __forceinline__ Value none() { return real(__int_as_float(0x7f800000)); }
    static __device__ __forceinline__ Value join(Value a, Value b) { return b < a || b != b ? b : a; }
};
struct Most {
    typedef real Value;
    static __device__ __forceinline__ Value none() { return real(-__int_as_float(0x7f800000)); }
    static __device__ __forceinline__ Value join(Value a, Value b) { return b > a || b != b ? b : a; }
};

template <class Op, class Out>
__device__ __forceinline__ void reduce(const real* __restrict__ X, const long long* __restrict__ order,
                                       const long long* __restrict__ bounds, long long stretches, int d,
                                       Out* __restrict__ out)
{
    const int lane = threadIdx.x % 32;
    const long long stretch = (long long)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (stretch >= stretches) return;  // the whole warp
    const long long begin = bounds[stretch], end = bounds[stretch + 1];
    const int lanes = d < 32 ? d : 32, abreast = 32 / lanes, mine = lane / lanes;
    for (int first = 0; first < d; first += 32) {
        const int column = first + lane % lanes;
        typename Op::Value value = Op::none();
        if (column < d && mine < abreast)
            for (long long r = begin + mine; r < end; r += abreast)
                value = Op::join(value, X[(order ? order[r] : r) * d + column]);
        typename Op::Value joined = value;
        for (int k = 1; k < abreast; ++k) {
            const typename Op::Value other = __shfl_down_sync(ALL, value, k * lanes);
            if (mine == 0) joined = Op::join(joined, other);
        }
        if (mine == 0 && column < d) out[stretch * d + column] = Out(joined);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
sums(const real* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ bounds,
     long long stretches, int d, double* __restrict__ out)
{
    reduce<Add>(X, order, bounds, stretches, d, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
minima(const real* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ bounds,
       long long stretches, int d, real* __restrict__ out)
{
    reduce<Least>(X, order, bounds, stretches, d, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
maxima(const real* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ bounds,
       long long stretches, int d, real* __restrict__ out)
{
    reduce<Most>(X, order, bounds, stretches, d, out);
}

// Σ (x − c)(x − c)ᵀ over each stretch, (stretches, d, d): one thread an entry, neighbours side by side on a row.  The centre
// c of a stretch is row owner[stretch] of `centres`.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
products(const real* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ bounds,
         const long long* __restrict__ owner, const double* __restrict__ centres, long long stretches, int d,
         double* __restrict__ out)
{
    const long long entry = (long long)blockIdx.x * THREADS + threadIdx.x, entries = (long long)d * d;
    if (entry >= stretches * entries) return;
    const long long stretch = entry / entries;
    const int i = (int)((entry - stretch * entries) / d), j = (int)(entry % d);
    const double* centre = centres + owner[stretch] * d;
    const double ci = centre[i], cj = centre[j];
    double sum = 0;
    for (long long r = bounds[stretch]; r < bounds[stretch + 1]; ++r) {
        const real* x = X + order[r] * d;
        sum = fma(double(x[i]) - ci, double(x[j]) - cj, sum);
    }
    out[entry] = sum;
}
