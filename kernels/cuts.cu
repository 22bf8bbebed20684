// Median cuts: the parts of a partition are cut in two along their widest column, and the halves again, one thread block
// per part.  The sizes of all halves follow from the size of a part; what the block finds is which rows go where.
//
// Sums over rows are taken in 32 slots, one after another, and the slots are added by halving: the host's functions add in
// this order, so that all choose the same column.
#include "parts.cuh"

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

constexpr int ADDERS = 32;           // slots of a sum, on every device
constexpr int MOST_THREADS = 512;    // of a block
constexpr int MOST_WARPS = MOST_THREADS / 32;
constexpr int DIGITS = 256;          // values of a digit of eight bits

// A part, or a half of one.  units : of `multiple` rows;  leaves : blocks that it becomes
struct Range {
    long long begin, end, units, leaves;

    __device__ __forceinline__ long long lower(int multiple) const { return units * (leaves / 2) / leaves * multiple; }

    // The lower or the upper half.
    __device__ __forceinline__ Range half(bool upper, int multiple) const {
        const long long left = leaves / 2, held = units * left / leaves, middle = begin + held * multiple;
        return upper ? Range{middle, end, units - held, leaves - left} : Range{begin, middle, held, left};
    }
};

// What a block works with.  X : (n, d);  order, moved, values : (n) the rows, and scratch of the range that is cut
struct Work {
    const real* X;
    int d;
    const long long* categorical;
    long long *order, *moved;
    real* values;
};

// Rows of a range that are looked at: its size rounded up to five bits, `most` at most.
__device__ __forceinline__ int sampled(long long size, int most) {
    long long step = 1;
    while (size / step >= 32) step *= 2;
    const long long rounded = (size + step - 1) / step * step;
    return rounded < most ? (int)rounded : most;
}

// The sum of a column over the sampled rows, or that of its squared differences from the mean; in all lanes.
template <bool SQUARED>
__device__ __forceinline__ double column_sum(const Work& work, const Range& range, int sample, int column, double mean,
                                             double* slots) {
    const long long size = range.end - range.begin;
    for (int slot = threadIdx.x % WARP; slot < ADDERS; slot += WARP) {
        double sum = 0.0;
        for (int i = slot; i < sample; i += ADDERS) {
            const double value = work.X[work.order[range.begin + i * size / sample] * work.d + column];
            const double apart = __dadd_rn(value, -mean);
            sum = __dadd_rn(sum, SQUARED ? __dmul_rn(apart, apart) : value);
        }
        slots[slot] = sum;
    }
    for (int half = ADDERS / 2; half > 0; half /= 2) {
        __syncwarp();
        for (int slot = threadIdx.x % WARP; slot < half; slot += WARP)
            slots[slot] = __dadd_rn(slots[slot], slots[slot + half]);
    }
    __syncwarp();
    const double sum = slots[0];
    __syncwarp();
    return sum;
}

// The column of largest variance; of about equal ones the first.  A warp sums a column.
__device__ __forceinline__ int widest(const Work& work, const Range& range, int most, double* slots, double* spread) {
    const int sample = sampled(range.end - range.begin, most), warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    slots += warp * ADDERS;
    for (int column = warp; column < work.d; column += warps) {
        const double mean = column_sum<false>(work, range, sample, column, 0.0, slots) / sample;
        const double sum = column_sum<true>(work, range, sample, column, mean, slots);
        if (threadIdx.x % WARP == 0) spread[column] = work.categorical[column] ? -1.0 : sum / sample;
    }
    __syncthreads();
    double largest = spread[0];
    for (int column = 1; column < work.d; ++column) largest = spread[column] > largest ? spread[column] : largest;
    int chosen = 0;
    while (spread[chosen] < (1 - 1e-9) * largest) ++chosen;
    return chosen;  // `cut` has barriers before `spread` is written again
}

// Bits that sort like the number; both zeros are equal.
__device__ __forceinline__ unsigned long long key_of(double value) {
    const long long bits = __double_as_longlong(value == 0.0 ? 0.0 : value);
    return bits < 0 ? ~(unsigned long long)bits : (unsigned long long)bits | 0x8000000000000000ull;
}
__device__ __forceinline__ unsigned long long key_of(float value) {
    const int bits = __float_as_int(value == 0.0f ? 0.0f : value);
    return bits < 0 ? ~(unsigned)bits : (unsigned)bits | 0x80000000u;
}

// The key of this rank, from 0, among the values of a range, and how many are below: digit by digit from the highest.
// counts : (DIGITS);  found : the digit, and how many keys with the same higher digits are below
__device__ __forceinline__ unsigned long long ranked(const real* values, long long size, long long rank,
                                                     long long& below, int* counts, long long* found) {
    unsigned long long known = 0;
    below = 0;
    for (int shift = 8 * (int)sizeof(real) - 8; shift >= 0; shift -= 8) {
        for (int digit = threadIdx.x; digit < DIGITS; digit += blockDim.x) counts[digit] = 0;
        __syncthreads();
        for (long long i = threadIdx.x; i < size; i += blockDim.x) {
            const unsigned long long key = key_of(values[i]) >> shift;
            if (key >> 8 == known) atomicAdd(counts + (int)(key & (DIGITS - 1)), 1);
        }
        __syncthreads();
        for (int digit = threadIdx.x; digit < DIGITS; digit += blockDim.x) {
            long long lower = below;
            for (int other = 0; other < digit; ++other) lower += counts[other];
            if (lower <= rank && rank < lower + counts[digit]) {
                found[0] = digit;
                found[1] = lower;
            }
        }
        __syncthreads();
        known = known << 8 | (unsigned long long)found[0];
        below = found[1];
    }
    return known;
}

// Put the `lower` lowest rows along a column first; ties go to the first rows, and both sides keep their order.
// counts : (DIGITS);  sums : (2, threads)
__device__ __forceinline__ void cut(const Work& work, const Range& range, long long lower, int column, int* counts,
                                    long long* found, int* sums) {
    const long long size = range.end - range.begin, share = (size + blockDim.x - 1) / blockDim.x;
    const long long first = threadIdx.x * share, last = first + share < size ? first + share : size;
    long long* order = work.order + range.begin;
    real* values = work.values + range.begin;
    for (long long i = threadIdx.x; i < size; i += blockDim.x) values[i] = work.X[order[i] * work.d + column];
    __syncthreads();
    long long below;
    const unsigned long long border = ranked(values, size, lower - 1, below, counts, found);
    int less = 0, equal = 0;
    for (long long i = first; i < last; ++i) {
        const unsigned long long key = key_of(values[i]);
        less += key < border;
        equal += key == border;
    }
    sums[threadIdx.x] = less;
    sums[blockDim.x + threadIdx.x] = equal;
    __syncthreads();
    long long before = 0, equals = 0;
    for (int other = 0; other < (int)threadIdx.x; ++other) {
        before += sums[other];
        equals += sums[blockDim.x + other];
    }
    for (long long i = first; i < last; ++i) {
        const unsigned long long key = key_of(values[i]);
        const long long taken = equals < lower - below ? equals : lower - below, down = before + taken;
        const bool here = key < border || (key == border && equals < lower - below);
        work.moved[range.begin + (here ? down : lower + i - down)] = order[i];
        before += key < border;
        equals += key == border;
    }
    __syncthreads();
    for (long long i = threadIdx.x; i < size; i += blockDim.x) order[i] = work.moved[range.begin + i];
    __syncthreads();
}

// X           : (n, d) rows;  categorical : (d) columns that are cut only if there are no others
// parts       : (p, 4) begin, end, units and leaves of each part
// multiple    : rows of a unit;  levels : how often the parts are cut in two;  most : rows that are looked at
// order       : (n) the rows of each part, rearranged;  moved, values : (n) scratch
// Shared memory holds d double numbers.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
cut_parts(const real* __restrict__ X, int d, const long long* __restrict__ categorical,
          const long long* __restrict__ parts, int multiple, int levels, int most, long long* order, long long* moved, real* values) {
    DYN_SHARED(double, spread);
    __shared__ double slots[MOST_WARPS * ADDERS];
    __shared__ int counts[DIGITS], sums[2 * MOST_THREADS];
    __shared__ long long found[2];
    const Work work = {X, d, categorical, order, moved, values};
    const long long* part = parts + 4 * (long long)blockIdx.x;
    for (int level = 0; level < levels; ++level) {
        bool any = false;
        for (long long path = 0; path < 1ll << level; ++path) {  // the halves of halves, by whether each is an upper one
            Range range = {part[0], part[1], part[2], part[3]};
            bool cut_before = true;
            for (int bit = level - 1; bit >= 0; --bit) {
                cut_before = cut_before && range.leaves > 1;
                if (cut_before) range = range.half(path >> bit & 1, multiple);
            }
            if (!cut_before || range.leaves < 2) continue;
            any = true;
            const int column = widest(work, range, most, slots, spread);
            cut(work, range, range.lower(multiple), column, counts, found, sums);
        }
        if (!any) return;
    }
}
