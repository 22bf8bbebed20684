// Refinement: rows are exchanged between near groups, one thread block per cell of near groups.
// In every step a random half of the groups propose to a neighbour, which accepts the last proposal, and one warp per pair
// finds the best exchange and carries it out if it is accepted: no group is in two pairs, so the gains add up.
// The distortion of a group of n rows is f = sum _{i<j} D(i, j) / n: its sum of squared errors when D is the squared
// Euclidean distance.  With in_i the sum of a row's distances from its own group and to_i from the other one,
//     swapping i of a and r of b changes f_a + f_b by  to_i/n_b - in_i/n_a + to_r/n_a - in_r/n_b - (1/n_a + 1/n_b) D(i, r),
//     moving i from a to b by                          (f_a - in_i)/(n_a - 1) + (to_i - f_b)/(n_b + 1).
// Rows are whole numbers, and so are D and its sums: they are exact, swaps and moves are compared without rounding, and the
// final division rounds as in NumPy.  So the groups equal those of the host, ties included.
#include "parts.cuh"

constexpr int MOST_WARPS = 8;

// Two groups: the rows of a, then those of b, column by column, and the sums of their distances.
struct Pair {
    const int* x;  // (d, stride)
    int stride, d, n_a, n_b;
    long long *in, *to;
    long long* totals;  // (2, d) scratch: sums of the rows of a and of b

    __device__ __forceinline__ int size() const { return n_a + n_b; }
};

// Squared Euclidean, or Gower's if mismatch is given: the distance of two categories of a column, -1 for a numeric column.
template <bool GOWER>
__device__ __forceinline__ long long distance(const Pair& pair, int s, int other, const int* mismatch) {
    long long sum = 0;
    for (int j = 0; j < pair.d; ++j) {
        const int e = pair.x[j * pair.stride + s] - pair.x[j * pair.stride + other];
        sum += column_distance<GOWER>(e, GOWER ? mismatch[j] : 0);
    }
    return sum;
}

// Set in and to from distances; return the sums of in over both groups.
__device__ __forceinline__ void sum_gower(const Pair& pair, const int* mismatch, long long& all_a, long long& all_b) {
    for (int s = threadIdx.x % WARP; s < pair.size(); s += WARP) {
        long long from_a = 0, from_b = 0;
        for (int other = 0; other < pair.n_a; ++other) from_a += distance<true>(pair, s, other, mismatch);
        for (int other = pair.n_a; other < pair.size(); ++other) from_b += distance<true>(pair, s, other, mismatch);
        const bool in_a = s < pair.n_a;
        pair.in[s] = in_a ? from_a : from_b;
        pair.to[s] = in_a ? from_b : from_a;
        all_a += in_a ? from_a : 0;
        all_b += in_a ? 0 : from_b;
    }
    all_a = warp_sum(all_a);
    all_b = warp_sum(all_b);
}

// The same for squared Euclidean distances: those of a row x from the n rows of a group with the sum t and the sum of
// squares q add up to n |x|^2 - 2 x t + q.  One lane per row and group.
__device__ __forceinline__ void sum_euclidean(const Pair& pair, long long& all_a, long long& all_b) {
    const int lane = threadIdx.x % WARP, d = pair.d;
    for (int t = lane; t < 2 * d; t += WARP) {
        const int *row = pair.x + t % d * pair.stride, from = t < d ? 0 : pair.n_a, to = t < d ? pair.n_a : pair.size();
        long long total = 0;
        for (int s = from; s < to; ++s) total += row[s];
        pair.totals[t] = total;
    }
    __syncwarp();
    long long squares_a = 0, squares_b = 0;
    for (int t = lane; t < 2 * pair.size(); t += WARP) {
        const int s = t / 2, n = t % 2 ? pair.n_b : pair.n_a;
        const bool in_a = s < pair.n_a, own = in_a != (bool)(t % 2);
        const long long* totals = pair.totals + t % 2 * d;
        long long square = 0, product = 0;
        for (int j = 0; j < d; ++j) {
            const long long value = pair.x[j * pair.stride + s];
            square += value * value;
            product += value * totals[j];
        }
        const long long sum = n * square - 2 * product;
        (own ? pair.in : pair.to)[s] = sum;
        squares_a += own && in_a ? square : 0;
        squares_b += own && !in_a ? square : 0;
        all_a += own && in_a ? sum : 0;
        all_b += own && !in_a ? sum : 0;
    }
    squares_a = warp_sum(squares_a);
    squares_b = warp_sum(squares_b);
    all_a = warp_sum(all_a) + pair.n_a * squares_a;
    all_b = warp_sum(all_b) + pair.n_b * squares_b;
    __syncwarp();
    for (int s = lane; s < pair.size(); s += WARP) {
        pair.in[s] += s < pair.n_a ? squares_a : squares_b;
        pair.to[s] += s < pair.n_a ? squares_b : squares_a;
    }
}

// Set in and to; return the distortions of both groups.
template <bool GOWER>
__device__ __forceinline__ void sum_distances(const Pair& pair, const int* mismatch, double& f_a, double& f_b) {
    long long all_a = 0, all_b = 0;
    GOWER ? sum_gower(pair, mismatch, all_a, all_b) : sum_euclidean(pair, all_a, all_b);
    f_a = (double)all_a / (double)(2 * pair.n_a);
    f_b = (double)all_b / (double)(2 * pair.n_b);
    __syncwarp();
}

// An exchange and its rank among exchanges of its kind, in whole numbers; ties go to the lower code.
struct Least {
    long long value;
    int code;

    __device__ __forceinline__ void offer(long long other, int its_code) {
        if (other < value || (other == value && its_code < code)) {
            value = other;
            code = its_code;
        }
    }

    // The best of the warp, in all its lanes.
    __device__ __forceinline__ void meet() {
        for (int apart = WARP / 2; apart > 0; apart /= 2) {
            const long long other = __shfl_xor_sync(ALL_LANES, value, apart);
            offer(other, __shfl_xor_sync(ALL_LANES, code, apart));
        }
    }
};
constexpr Least NOTHING_YET = {LARGEST_VALUE, NO_ROW};

// Change by an exchange, and its code: i * width + r for a swap, width^2 + i for a move from a, width^2 + width + r from b.
struct Exchange {
    double change;
    int code;
};

template <bool GOWER>
__device__ __forceinline__ Exchange best_swap(const Pair& pair, int width, const int* mismatch) {
    const long long n_a = pair.n_a, n_b = pair.n_b;
    Least least = NOTHING_YET;
    for (int t = threadIdx.x % WARP; t < pair.n_a * pair.n_b; t += WARP) {
        const int i = t / pair.n_b, r = t % pair.n_b, s = pair.n_a + r;
        const long long change = n_a * pair.to[i] - n_b * pair.in[i] + n_b * pair.to[s] - n_a * pair.in[s];
        least.offer(change - (n_a + n_b) * distance<GOWER>(pair, i, s, mismatch), i * width + r);
    }
    least.meet();
    return {(double)least.value / (double)(n_a * n_b), least.code};
}

// Keep the best move from the group of n rows that begins at `first`, with distortion f, to that of m rows with
// distortion g, if it is better.
__device__ __forceinline__ void try_moves(const Pair& pair, int first, int n, int m, double f, double g, int code,
                                          Exchange& best) {
    const long long *in = pair.in + first, *to = pair.to + first;
    Least least = NOTHING_YET;
    for (int i = threadIdx.x % WARP; i < n; i += WARP) least.offer((n - 1) * to[i] - (m + 1) * in[i], i);
    least.meet();
    const int i = least.code;
    const double change = (f - (double)in[i]) / (double)(n - 1) + ((double)to[i] - g) / (double)(m + 1);
    if (change < best.change) best = {change, code + i};
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

// Gather the rows of both groups, column by column.
__device__ __forceinline__ void gather(const int* __restrict__ x, int d, const long long* rows_a, const long long* rows_b,
                                       int n_a, int size, int stride, int* copy) {
    for (int t = threadIdx.x % WARP; t < size * d; t += WARP) {
        const int s = t / d, j = t % d;
        copy[j * stride + s] = x[(s < n_a ? rows_a[s] : rows_b[s - n_a]) * d + j];
    }
    __syncwarp();
}

// The best exchange of a pair whose rows are gathered, and the distortions of both groups.
__device__ __forceinline__ Exchange best_exchange(const Pair& pair, int k, int width, const int* mismatch, double& f_a,
                                                  double& f_b) {
    mismatch ? sum_distances<true>(pair, mismatch, f_a, f_b) : sum_distances<false>(pair, mismatch, f_a, f_b);
    Exchange best = mismatch ? best_swap<true>(pair, width, mismatch) : best_swap<false>(pair, width, mismatch);
    if (pair.n_a > k && pair.n_b < width)
        try_moves(pair, 0, pair.n_a, pair.n_b, f_a, f_b, width * width, best);
    if (pair.n_b > k && pair.n_a < width)
        try_moves(pair, pair.n_a, pair.n_b, pair.n_a, f_b, f_a, width * width + width, best);
    return best;
}

// 64 pseudo-random bits of a group in a turn (SplitMix64); the same as `random_words` in annealing.py.
__device__ __forceinline__ unsigned long long random_word(long long group, int turn) {
    unsigned long long word = (((unsigned long long)group << 16) + turn + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

__device__ __forceinline__ bool coin(unsigned long long word, int step) { return (word >> (step % 64)) & 1; }

// An exponential random number: the one in a table of its quantiles that is chosen by 16 bits, which differ from step to
// step.  The host makes the table, because logarithms are rounded differently on every device.
__device__ __forceinline__ double patience(const double* noise, unsigned long long word, int step) {
    return noise[(word * (2 * step + 1)) >> 48];
}

// The arguments of a launch.
struct Task {
    const int* x;                // (n, d)
    int d, k, width;             // groups have k to width rows
    const int* mismatch;         // (d), or null
    long long *members, *sizes;  // (groups, width) places of each group's rows in x, and (groups) their number

    // 8-byte words that a pair needs.  The stride of a column is odd, so that the columns of one row are in different
    // banks.
    __device__ __forceinline__ int stride() const { return 2 * width + 1; }
    __device__ __forceinline__ int room() const { return 2 * stride() + 2 * d + (d * stride() + 1) / 2; }
};

// Groups a and b: find the best exchange, with scratch for their rows and sums, and carry it out if it changes the
// distortion by less than heat, in units of the two groups' distortion per row.  Lane 0 returns the change.
__device__ __forceinline__ double visit(const Task& task, long long a, long long b, double heat, long long* room) {
    long long *rows_a = task.members + a * task.width, *rows_b = task.members + b * task.width;
    const int n_a = (int)task.sizes[a], n_b = (int)task.sizes[b], stride = task.stride();
    long long* totals = room + 2 * stride;
    int* copy = reinterpret_cast<int*>(totals + 2 * task.d);
    const Pair pair = {copy, stride, task.d, n_a, n_b, room, room + stride, totals};
    double f_a, f_b;
    gather(task.x, task.d, rows_a, rows_b, n_a, n_a + n_b, stride, copy);
    const Exchange best = best_exchange(pair, task.k, task.width, task.mismatch, f_a, f_b);
    const bool wanted = best.change < (f_a + f_b) / (double)(n_a + n_b) * heat;
    __syncwarp();
    if (!wanted || threadIdx.x % WARP != 0) return 0.0;
    carry_out(best.code, task.width, rows_a, rows_b, task.sizes[a], task.sizes[b]);
    return best.change;
}

// x, d, mismatch, members, sizes, k, width : as above
// order, starts : (groups) and (cells + 1): the groups of each cell
// near      : (count, groups) for each place in order, the places of near groups of the same cell
// steps     : number of steps; step s has the temperature heat * max(0, 1 - (first + s) / all)
// noise     : (65536) quantiles of the exponential distribution
// largest   : groups in the largest cell.  Shared memory holds 12 bytes for each, rounded up to a multiple of 8, then the
//             words of each warp; if it is too small these are in scratch, (cells, warps, words), else null
// change    : (cells) change of the distortion
extern "C" __global__ void __launch_bounds__(256, 1)
anneal(const int* __restrict__ x, int d, const int* __restrict__ mismatch, long long* members, long long* sizes, int k,
       int width, const long long* __restrict__ order, const long long* __restrict__ starts,
       const long long* __restrict__ near, long long groups, int count, int turn, int steps, int first, int all, double heat,
       const double* __restrict__ noise, int largest, long long* scratch, double* __restrict__ change) {
    DYN_SHARED(unsigned long long, words);  // random bits of each group
    __shared__ double changes[MOST_WARPS];
    int* asked_by = reinterpret_cast<int*>(words + largest);  // the group whose proposal each group accepts, or -1
    long long* rooms = reinterpret_cast<long long*>(asked_by + (largest + largest % 2));
    const Task task = {x, d, k, width, mismatch, members, sizes};
    const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const long long start = starts[blockIdx.x], own_scratch = ((long long)blockIdx.x * warps + warp) * task.room();
    const int size = (int)(starts[blockIdx.x + 1] - start);
    double changed = 0.0;
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
        const double cooled = 1.0 - (double)(first + step) / (double)all;
        const double now = heat * (cooled > 0.0 ? cooled : 0.0);
        for (int own = warp; own < size; own += warps) {
            const int asking = asked_by[own];
            if (asking < 0) continue;
            const double allowed = now * patience(noise, words[asking], step);
            changed += scratch ? visit(task, order[asking], order[own], allowed, scratch + own_scratch)
                               : visit(task, order[asking], order[own], allowed, rooms + warp * task.room());
        }
        __syncthreads();
    }
    if (threadIdx.x % WARP == 0) changes[warp] = changed;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int other = 1; other < warps; ++other) changed += changes[other];
    change[blockIdx.x] = changed;
}
