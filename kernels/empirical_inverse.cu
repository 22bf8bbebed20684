// Inverse empirical conditional distribution functions (Wei et al. 2018, eq. 7-9), one thread per record.
// The rows of a part are sorted lexicographically, so those that agree with the values found so far are a range
// in which the next column ascends, and its quantile is a place in the range.
// Memory accesses are binary searches at data-dependent places: the lanes of a warp coincide only in the first steps.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

// A product rounded by itself, as in NumPy: its last bit decides between two values.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
#else
__device__ __forceinline__ double times(double a, double b) { return a * b; }
#endif

// First place of low .. high - 1 at which the share of the range up to this place reaches u.
__device__ __forceinline__ long long quantile_place(double u, long long low, long long high,
                                                    const long long* __restrict__ running) {
    long long place;
    if (running) {
        const long long target = running[low] + (long long)ceil(times(u, (double)(running[high] - running[low])));
        long long from = low, to = high + 1;  // the first entry of running that is not below the target
        while (from < to) {
            const long long middle = from + (to - from) / 2;
            if (running[middle] < target)
                from = middle + 1;
            else
                to = middle;
        }
        place = from - 1;
    } else {
        place = low + (long long)ceil(times(u, (double)(high - low))) - 1;
    }
    return place < low ? low : place >= high ? high - 1 : place;
}

// First place of low .. high - 1 whose value is at least (or, if AFTER, more than) v; high if there is none.
template <bool AFTER>
__device__ __forceinline__ long long first_place(const real* __restrict__ column, long long low, long long high, real v) {
    while (low < high) {
        const long long middle = low + (high - low) / 2;
        if (column[middle] < v || (AFTER && column[middle] == v))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// u       : (d, m) in [0, 1], one record per column
// sorted  : (d, n) rows sorted by part, each part sorted lexicographically
// parts   : (m) the part of each record;  starts : (parts + 1) offsets of the parts
// running : (n + 1) running sum of the sorted rows' weights in whole units, below 2^53 in a part; null for equal weights
// low, high : (m) the sorted rows that equal each record's new values are low .. high - 1
extern "C" __global__ void __launch_bounds__(256)
empirical_inverse(const double* __restrict__ u, const real* __restrict__ sorted, const long long* __restrict__ parts,
                  const long long* __restrict__ starts, const long long* __restrict__ running, long long m, int d,
                  long long n, long long* __restrict__ low, long long* __restrict__ high) {
    const long long record = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (record >= m) return;
    long long from = starts[parts[record]], to = starts[parts[record] + 1];
    for (int j = 0; j < d; ++j) {
        const real* column = sorted + j * n;
        const long long place = quantile_place(u[j * m + record], from, to, running);
        const real v = column[place];
        from = first_place<false>(column, from, place, v);
        to = first_place<true>(column, place + 1, to, v);
    }
    low[record] = from;
    high[record] = to;
}
