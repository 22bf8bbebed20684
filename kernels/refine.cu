// Refinement: rows are exchanged between neighbouring groups, one cell of near groups a thread block.
// In every step groups whose coin fell so ask a neighbour, a neighbour takes the last that asks, and one warp a pair finds
// the best exchange and carries it out where it is wanted: no group is in two pairs, so the gains add up.
// The distortion of a group of n rows is f = Σ_{i<j} D(i, j) / n: its sum of squared errors when D is the squared
// Euclidean distance.  With in_i the sum of a row's distances from its own group and to_i from the other one,
//     swapping i of a and r of b changes f_a + f_b by  to_i/n_b − in_i/n_a + to_r/n_a − in_r/n_b − (1/n_a + 1/n_b) D(i, r),
//     moving i from a to b by                          (f_a − in_i)/(n_a − 1) + (to_i − f_b)/(n_b + 1).
#include "parts.cuh"

// Two groups: the rows of a, then those of b, column by column, and the sums of their distances.
struct Pair {
    const real* x;  // (d, stride)
    int stride, d, n_a, n_b;
    real *in, *to;

    __device__ __forceinline__ int size() const { return n_a + n_b; }
};

template <bool GOWER>
__device__ __forceinline__ real distance(const Pair& pair, int s, int other, const Metric& metric) {
    real sum = real(0);
    for (int j = 0; j < pair.d; ++j)
        sum += column_distance<GOWER>(pair.x[j * pair.stride + s] - pair.x[j * pair.stride + other], j, metric);
    return sum;
}

__device__ __forceinline__ real warp_sum(real value) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(ALL_LANES, value, apart);
    return value;
}

// Set in and to; give back the distortions of both groups.
template <bool GOWER>
__device__ __forceinline__ void sum_distances(const Pair& pair, const Metric& metric, real& f_a, real& f_b) {
    const int lane = threadIdx.x % WARP;
    real all_a = real(0), all_b = real(0);
    for (int s = lane; s < pair.size(); s += WARP) {
        real from_a = real(0), from_b = real(0);
        for (int other = 0; other < pair.n_a; ++other) from_a += distance<GOWER>(pair, s, other, metric);
        for (int other = pair.n_a; other < pair.size(); ++other) from_b += distance<GOWER>(pair, s, other, metric);
        const bool in_a = s < pair.n_a;
        pair.in[s] = in_a ? from_a : from_b;
        pair.to[s] = in_a ? from_b : from_a;
        all_a += in_a ? from_a : real(0);
        all_b += in_a ? real(0) : from_b;
    }
    f_a = warp_sum(all_a) / (real(2) * real(pair.n_a));
    f_b = warp_sum(all_b) / (real(2) * real(pair.n_b));
    __syncwarp();
}

// The least change, and its code: i · width + r for a swap, width² + i for a move from a, width² + width + r from b.
template <bool GOWER>
__device__ __forceinline__ Choice weigh(const Pair& pair, int k, int width, real f_a, real f_b, const Metric& metric) {
    const int lane = threadIdx.x % WARP;
    const real n_a = real(pair.n_a), n_b = real(pair.n_b), both = real(1) / n_a + real(1) / n_b;
    const real *in_b = pair.in + pair.n_a, *to_a = pair.to + pair.n_a;
    Choice best = nothing_yet<false>();
    for (int t = lane; t < pair.n_a * pair.n_b; t += WARP) {
        const int i = t / pair.n_b, r = t % pair.n_b;
        const real change = (pair.to[i] / n_b - pair.in[i] / n_a) + (to_a[r] / n_a - in_b[r] / n_b);
        consider<false>(best, change - both * distance<GOWER>(pair, i, pair.n_a + r, metric), i * width + r);
    }
    if (pair.n_a > k && pair.n_b < width)
        for (int i = lane; i < pair.n_a; i += WARP)
            consider<false>(best, (f_a - pair.in[i]) / (n_a - real(1)) + (pair.to[i] - f_b) / (n_b + real(1)),
                            width * width + i);
    if (pair.n_b > k && pair.n_a < width)
        for (int r = lane; r < pair.n_b; r += WARP)
            consider<false>(best, (f_b - in_b[r]) / (n_b - real(1)) + (to_a[r] - f_a) / (n_a + real(1)),
                            width * width + width + r);
    return best_of_warp<false>(best);
}

// Carry out an exchange.  A move leaves a gap that the last row of its group fills.
__device__ __forceinline__ void carry_out(int code, int width, long long* rows_a, long long* rows_b, long long& size_a,
                                          long long& size_b) {
    if (code < width * width) {
        const int i = code / width, r = code % width;
        const long long row = rows_a[i];
        rows_a[i] = rows_b[r];
        rows_b[r] = row;
    } else {
        const bool from_b = code >= width * width + width;
        const int slot = code - width * width - (from_b ? width : 0);
        long long *source = from_b ? rows_b : rows_a, *target = from_b ? rows_a : rows_b;
        long long &size_source = from_b ? size_b : size_a, &size_target = from_b ? size_a : size_b;
        target[size_target++] = source[slot];
        source[slot] = source[--size_source];
    }
}

// Bring the rows of both groups together, column by column.
__device__ __forceinline__ void gather(const real* __restrict__ x, int d, const long long* rows_a, const long long* rows_b,
                                       int n_a, int size, int stride, real* copy) {
    for (int t = threadIdx.x % WARP; t < size * d; t += WARP) {
        const int s = t / d, j = t % d;
        copy[j * stride + s] = x[(s < n_a ? rows_a[s] : rows_b[s - n_a]) * d + j];
    }
    __syncwarp();
}

// The best exchange of a pair whose rows are gathered in `copy`, (d + 2, 2 width + 1).
__device__ __forceinline__ Choice best_exchange(real* copy, int d, int n_a, int n_b, int k, int width, const Metric& metric,
                                                real& f_a, real& f_b) {
    const int stride = 2 * width + 1;  // odd: the columns of one row lie in different banks
    const Pair pair = {copy, stride, d, n_a, n_b, copy + d * stride, copy + (d + 1) * stride};
    metric.weights ? sum_distances<true>(pair, metric, f_a, f_b) : sum_distances<false>(pair, metric, f_a, f_b);
    return metric.weights ? weigh<true>(pair, k, width, f_a, f_b, metric) : weigh<false>(pair, k, width, f_a, f_b, metric);
}

// 64 random bits of a group at a turn (SplitMix64).
__device__ __forceinline__ unsigned long long random_word(long long group, int turn) {
    unsigned long long word = (((unsigned long long)group << 16) + turn + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

__device__ __forceinline__ bool coin(unsigned long long word, int step) { return (word >> (step % 64)) & 1; }

// An exponential random number, from 16 bits that differ from step to step.
__device__ __forceinline__ real patience(unsigned long long word, int step) {
    const double share = ((double)((word * (2 * step + 1)) >> 48) + 0.5) / 65536.0;
    return (real)-log(share);
}

// What a launch works on.
struct Task {
    const real* x;                 // (n, d)
    int d, k, width;               // groups keep k rows and have at most width
    long long *members, *sizes;    // (groups, width) places of each group's rows in x, and (groups) how many of them count
    real margin;
};

// Groups a and b: find the best exchange with their rows gathered in `copy`, and carry it out if it changes the distortion
// by less than heat − margin, in units of the two groups' distortion a row.  Lane 0 gives back what it changed.
__device__ __forceinline__ real visit(const Task& task, long long a, long long b, real heat, real* copy,
                                      const Metric& metric) {
    long long *rows_a = task.members + a * task.width, *rows_b = task.members + b * task.width;
    const int n_a = (int)task.sizes[a], n_b = (int)task.sizes[b];
    real f_a, f_b;
    gather(task.x, task.d, rows_a, rows_b, n_a, n_a + n_b, 2 * task.width + 1, copy);
    const Choice best = best_exchange(copy, task.d, n_a, n_b, task.k, task.width, metric, f_a, f_b);
    const bool wanted = best.value < (f_a + f_b) / real(n_a + n_b) * (heat - task.margin);
    __syncwarp();
    if (!wanted || threadIdx.x % WARP != 0) return real(0);
    carry_out(best.row, task.width, rows_a, rows_b, task.sizes[a], task.sizes[b]);
    return best.value;
}

// x, members, sizes, k, width, margin : as above
// order, starts : (groups) and (cells + 1): the groups of each cell
// near      : (count, groups) places in order of groups near to that at each place, of the same cell
// steps     : how many; step s has the heat heat · max(0, 1 − (first + s) / all)
// weights   : (d) shares of the columns, or null for the Euclidean metric;  categorical : (d)
// largest   : groups in the largest cell.  The shared memory holds 12 bytes for each, up to a multiple of 8, then
//             (d + 2) (2 width + 1) numbers a warp; where it is too small these lie in scratch, (cells, warps, …), else null
// change    : (cells, warps) what the exchanges changed
extern "C" __global__ void __launch_bounds__(256, 1)
anneal(const real* __restrict__ x, int d, long long* members, long long* sizes, int k, int width, real margin,
       const long long* __restrict__ order, const long long* __restrict__ starts, const long long* __restrict__ near,
       long long groups, int count, int turn, int steps, int first, int all, real heat, const real* __restrict__ weights,
       const unsigned char* __restrict__ categorical, int largest, real* scratch, real* __restrict__ change) {
    DYN_SHARED(unsigned long long, words);  // random bits of each group
    int* asked_by = reinterpret_cast<int*>(words + largest);  // the group that each group takes, or −1
    real* copies = reinterpret_cast<real*>(asked_by + (largest + largest % 2));
    const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP, cells = (d + 2) * (2 * width + 1);
    const long long start = starts[blockIdx.x], own_scratch = ((long long)blockIdx.x * warps + warp) * cells;
    const int size = (int)(starts[blockIdx.x + 1] - start);
    const Task task = {x, d, k, width, members, sizes, margin};
    const Metric metric = {weights, categorical};
    real changed = real(0);
    order += start;
    for (int own = threadIdx.x; own < size; own += blockDim.x) words[own] = random_word(order[own], turn);
    for (int step = 0; step < steps; ++step) {
        for (int own = threadIdx.x; own < size; own += blockDim.x) asked_by[own] = -1;
        __syncthreads();
        for (int own = threadIdx.x; own < size; own += blockDim.x) {
            const int mate = (int)(near[(step % count) * groups + start + own] - start);
            if (coin(words[own], step) && !coin(words[mate], step)) atomicMax(asked_by + mate, own);
        }
        __syncthreads();
        const real now = heat * (real)(1.0 - (double)(first + step) / (double)all);
        for (int own = warp; own < size; own += warps) {
            const int asking = asked_by[own];
            if (asking < 0) continue;
            const real allowed = (now > real(0) ? now : real(0)) * patience(words[asking], step);
            changed += scratch ? visit(task, order[asking], order[own], allowed, scratch + own_scratch, metric)
                               : visit(task, order[asking], order[own], allowed, copies + warp * cells, metric);
        }
        __syncthreads();
    }
    if (threadIdx.x % WARP == 0) change[(long long)blockIdx.x * warps + warp] = changed;
}
