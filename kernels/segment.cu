// Reductions over runs of rows (`stretch` in the code), repeatable to the bit: the run alone fixes the order of a sum.
//
// Rows order[bounds[s]] ... order[bounds[s + 1] - 1] of X (n, d) are run s; without `order`, rows bounds[s] ... themselves.
// A warp owns a run.  Extremes: its lanes cover `lanes` columns and 32 / lanes rows; each loops down its column, and the lanes
// of a column are reduced in ascending order at the end.  Sums are those of the host to the bit: of a short run row after row,
// of a longer one in 32 slots, one row each in turn, which are then added by halving.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#ifndef LANES  // of a warp; a host build with one lane per warp defines 1
#define LANES 32
#endif
constexpr int WARP = LANES, WARPS = 4;
constexpr int THREADS = 128;  // with one thread block: else ptxas spills registers for a needless occupancy
constexpr unsigned int ALL = 0xffffffffu;

constexpr int ADDERS = 32;  // slots of a sum, on every device

struct Least {  // NaN propagates
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
    const int lane = threadIdx.x % WARP;
    const long long stretch = (long long)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (stretch >= stretches) return;  // the whole warp
    const long long begin = bounds[stretch], end = bounds[stretch + 1];
    const int lanes = d < WARP ? d : WARP, abreast = WARP / lanes, mine = lane / lanes;
    for (int first = 0; first < d; first += WARP) {
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

// The sum of a column over every step-th row of a run, one after another; -0 is the sum of no rows.
__device__ __forceinline__ double sum_every(const real* __restrict__ X, const long long* __restrict__ order, long long begin,
                                            long long end, int step, int d, int column)
{
    double sum = -0.0;
    for (long long r = begin; r < end; r += step) sum = __dadd_rn(sum, X[(order ? order[r] : r) * d + column]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
sums(const real* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ bounds,
     long long stretches, int d, double* __restrict__ out)
{
    __shared__ double slots[WARPS * ADDERS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const long long stretch = (long long)blockIdx.x * WARPS + warp;
    if (stretch >= stretches) return;  // the whole warp
    const long long begin = bounds[stretch], end = bounds[stretch + 1];
    if (end - begin <= ADDERS) {
        for (int column = lane; column < d; column += WARP)
            out[stretch * d + column] = sum_every(X, order, begin, end, 1, d, column);
        return;
    }
    double* own = slots + warp * ADDERS;
    for (int column = 0; column < d; ++column) {
        for (int slot = lane; slot < ADDERS; slot += WARP)
            own[slot] = sum_every(X, order, begin + slot, end, ADDERS, d, column);
        for (int half = ADDERS / 2; half > 0; half /= 2) {
            __syncwarp();
            for (int slot = lane; slot < half; slot += WARP) own[slot] = __dadd_rn(own[slot], own[slot + half]);
        }
        if (lane == 0) out[stretch * d + column] = own[0];
        __syncwarp();
    }
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

// sum (x - c)(x - c)^T over each run, (stretches, d, d): one thread per entry, consecutive threads on a row.  The centre c of
// a run is row owner[stretch] of `centres`.
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
