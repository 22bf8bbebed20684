// Distances between the rows of X (n, d) and of Y (m, d), the reduction over Y fused.
//
// FORMULA selects the distance: 0 squared Euclidean, 1 weighted squared Euclidean, 2 Gower.  `weights` has one value per
// column (null for 0); Gower's sum to 1, and those of categorical columns are negative.
// blockIdx.y numbers the runs of `stretch` rows of Y, so that few rows of X fill the device too.  Each run has its own row
// of results, which the caller merges in ascending order.
//
// variants: FORMULA=0 FORMULA=1 FORMULA=2
#include "pairs.cuh"

#ifndef FORMULA
#define FORMULA 0
#endif
#if FORMULA == 0
#define DISTANCE Euclidean{}
#elif FORMULA == 1
#define DISTANCE Weighted{weights}
#else
#define DISTANCE Gower{weights}
#endif

constexpr int ROWS = 128;      // rows of X per thread block
constexpr int LIST_ROWS = 64;  // the same for kernels with a list per row
constexpr int BLOCKS = 3;      // thread blocks per multiprocessor: allows 168 registers per thread

// Smallest value, the lowest row that has it, how many have it, and the next value.  Values below `floor` count as `floor`.
struct Nearest {
    real floor;
    real best = real(__int_as_float(0x7f800000)), next = best;
    long long index = 0, ties = 0;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long y, int count, const real (&values)[STEP])
    {
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            if (s >= count) continue;
            const real value = values[s] < floor ? floor : values[s];
            const bool less = value < best, equal = value == best;
            next = less ? best : (!equal && value < next ? value : next);
            ties = less ? 1 : ties + equal;
            index = less ? y + s : index;
            best = less ? value : best;
        }
    }
};

// Largest value and the lowest row that has it.
struct Furthest {
    real best = real(-1);
    long long index = 0;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long y, int count, const real (&values)[STEP])
    {
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            if (s >= count || !(values[s] > best)) continue;
            best = values[s];
            index = y + s;
        }
    }
};

// The k smallest values in order; ties: lowest rows first.  The list of a thread is a column of shared memory.
// Values up to `least` do not count, nor does `least` itself in rows up to `last`: they were found by an earlier launch.
// Values below `floor` count as `floor`.
struct Smallest {
    int k, held = 0;
    real* values;
    long long* rows;
    real least;
    long long last;
    real floor;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long y, int count, const real (&fresh)[STEP])
    {
#pragma unroll
        for (int s = 0; s < STEP; ++s)
            if (s < count) insert(fresh[s] < floor ? floor : fresh[s], y + s);
    }
    __device__ __forceinline__ void insert(real value, long long row)
    {
        if (held == k && !(value < values[(k - 1) * LIST_ROWS])) return;
        if (value < least || (value == least && row <= last)) return;
        int slot = held < k ? held++ : k - 1;
        for (; slot > 0 && values[(slot - 1) * LIST_ROWS] > value; --slot) {
            values[slot * LIST_ROWS] = values[(slot - 1) * LIST_ROWS];
            rows[slot * LIST_ROWS] = rows[(slot - 1) * LIST_ROWS];
        }
        values[slot * LIST_ROWS] = value;
        rows[slot * LIST_ROWS] = row;
    }
};

// Sum of the values: each STEP is summed in `real`, the steps in double.
struct Sum {
    double total = 0;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long, int count, const real (&values)[STEP])
    {
        real part = real(0);
#pragma unroll
        for (int s = 0; s < STEP; ++s) part += s < count ? values[s] : real(0);
        total += double(part);
    }
};

// All values.  Here a thread owns a row of Y, so that a warp writes consecutive words: out[x][y].
struct Store {
    real* out;
    long long row, rows;
    __device__ __forceinline__ void stage(long long, long long) {}
    __device__ __forceinline__ void take(long long x, int count, const real (&values)[STEP])
    {
#pragma unroll
        for (int s = 0; s < STEP; ++s)
            if (s < count && row < rows) out[(x + s) * rows + row] = values[s];
    }
};

// Write the lists of the thread block row by row, so that consecutive threads write consecutive words.  A list of fewer than
// k rows has infinity and row -1 in the last places.
__device__ __forceinline__ void write_lists(const real* values, const long long* rows, long long first, long long n,
                                            int k, long long offset, real* __restrict__ distance,
                                            long long* __restrict__ index)
{
    __syncthreads();
    for (int t = threadIdx.x; t < LIST_ROWS * k; t += LIST_ROWS) {
        const int r = t / k, slot = t % k;
        if (first + r >= n) return;
        const long long place = (offset + first + r) * k + slot;
        distance[place] = values[slot * LIST_ROWS + r];
        index[place] = rows[slot * LIST_ROWS + r];
    }
}

// The value of the pair (X[i], Y[index[i]]), summed as in `sweep`.
template <class Formula>
__device__ __forceinline__ real pair_value(const real* __restrict__ X, const real* __restrict__ Y,
                                           const long long* __restrict__ index, long long first, long long n, int d,
                                           real* xs, real* ys, const Formula& formula)
{
    real total = real(0);
    for (int k0 = 0; k0 < d; k0 += CHUNK) {
        __syncthreads();
        stage<ROWS, x_width(ROWS), ROWS>(X, first, n, d, k0, xs);
#pragma unroll 4
        for (int t = threadIdx.x; t < ROWS * CHUNK; t += ROWS) {
            const int r = t / CHUNK, k = t % CHUNK;
            const bool inside = first + r < n && k0 + k < d;
            ys[k * x_width(ROWS) + r] = inside ? Y[index[first + r] * d + k0 + k] : real(0);
        }
        __syncthreads();
        real part = real(0);
        for (int k = 0; k < CHUNK && k0 + k < d; k += GROUP) {
            real sum = real(0);
#pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                const int at = (k + g) * x_width(ROWS) + threadIdx.x;
                sum = formula.add(sum, xs[at], ys[at], formula.column(k0 + k + g, d));
            }
            part += sum;
        }
        total += part;
    }
    return total;
}

#define TILES(rows)                                          \
    __shared__ __align__(16) real xs[CHUNK * x_width(rows)]; \
    __shared__ __align__(16) real ys[CHUNK * Y_WIDTH]

// The rows of Y of this thread block.
struct Stretch {
    long long begin, end;
    __device__ __forceinline__ Stretch(long long m, long long stretch)
        : begin((long long)blockIdx.y * stretch), end(m - begin < stretch ? m : begin + stretch)
    {
    }
};

// floors : (n) see Nearest; null for none
extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
nearest(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights, long long n,
        long long m, int d, long long stretch, const real* __restrict__ floors, real* __restrict__ distance,
        real* __restrict__ next, long long* __restrict__ index, long long* __restrict__ ties)
{
    TILES(ROWS);
    const long long first = (long long)blockIdx.x * ROWS, row = first + threadIdx.x;
    const Stretch rows(m, stretch);
    Nearest found{floors && row < n ? floors[row] : real(0)};
    sweep<ROWS>(X, first, n, Y, rows.begin, rows.end, d, xs, ys, DISTANCE, found);
    if (row >= n) return;
    distance[blockIdx.y * n + row] = found.best;
    next[blockIdx.y * n + row] = found.next;
    index[blockIdx.y * n + row] = found.index;
    ties[blockIdx.y * n + row] = found.ties;
}

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
furthest(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights, long long n,
         long long m, int d, long long stretch, real* __restrict__ distance, long long* __restrict__ index)
{
    TILES(ROWS);
    const long long first = (long long)blockIdx.x * ROWS, row = first + threadIdx.x;
    const Stretch rows(m, stretch);
    Furthest found;
    sweep<ROWS>(X, first, n, Y, rows.begin, rows.end, d, xs, ys, DISTANCE, found);
    if (row >= n) return;
    distance[blockIdx.y * n + row] = found.best;
    index[blockIdx.y * n + row] = found.index;
}

// least, last : (n) the last neighbour of each row that is known already; null for none
// floors : (n) see Smallest; null for none
extern "C" __global__ void __launch_bounds__(LIST_ROWS, BLOCKS)
k_nearest(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights, long long n,
          long long m, int d, long long stretch, int k, const real* __restrict__ least,
          const long long* __restrict__ last, const real* __restrict__ floors, real* __restrict__ distance,
          long long* __restrict__ index)
{
    TILES(LIST_ROWS);
    DYN_SHARED(long long, lists);
    real* values = reinterpret_cast<real*>(lists + k * LIST_ROWS);
    const long long first = (long long)blockIdx.x * LIST_ROWS, row = first + threadIdx.x;
    const Stretch rows(m, stretch);
    for (int slot = 0; slot < k; ++slot) {
        values[slot * LIST_ROWS + threadIdx.x] = real(__int_as_float(0x7f800000));
        lists[slot * LIST_ROWS + threadIdx.x] = -1;
    }
    const bool known = least && row < n;
    Smallest found{k, 0, values + threadIdx.x, lists + threadIdx.x, known ? least[row] : real(-1), known ? last[row] : -1,
                   floors && row < n ? floors[row] : real(0)};
    sweep<LIST_ROWS>(X, first, n, Y, rows.begin, rows.end, d, xs, ys, DISTANCE, found);
    write_lists(values, lists, first, n, k, blockIdx.y * n, distance, index);
}

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
row_sums(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights, long long n,
         long long m, int d, long long stretch, double* __restrict__ sums)
{
    TILES(ROWS);
    const long long first = (long long)blockIdx.x * ROWS, row = first + threadIdx.x;
    const Stretch rows(m, stretch);
    Sum sum;
    sweep<ROWS>(X, first, n, Y, rows.begin, rows.end, d, xs, ys, DISTANCE, sum);
    if (row < n) sums[blockIdx.y * n + row] = sum.total;
}

// The whole matrix (n, m).  Threads own rows of Y, and the thread block loops over rows of X: see Store.
extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
matrix(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights, long long n,
       long long m, int d, long long stretch, real* __restrict__ out)
{
    TILES(ROWS);
    const long long first = (long long)blockIdx.x * ROWS;
    const Stretch rows(n, stretch);
    Store store{out, first + threadIdx.x, m};
    sweep<ROWS>(Y, first, m, X, rows.begin, rows.end, d, xs, ys, DISTANCE, store);
}

// Distance of X[i] and Y[index[i]].
extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
paired(const real* __restrict__ X, const real* __restrict__ Y, const real* __restrict__ weights,
       const long long* __restrict__ index, long long n, int d, real* __restrict__ distance)
{
    __shared__ __align__(16) real xs[CHUNK * x_width(ROWS)];
    __shared__ __align__(16) real ys[CHUNK * x_width(ROWS)];
    const long long first = (long long)blockIdx.x * ROWS;
    const real value = pair_value(X, Y, index, first, n, d, xs, ys, DISTANCE);
    if (first + threadIdx.x < n) distance[first + threadIdx.x] = value;
}
