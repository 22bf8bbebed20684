// Greedy k-member clustering (Byun et al. 2007), one thread block per part of a partition.
// The free row furthest from the last seed is the next seed; k - 1 times the free row with the least sum of distances
// from the cluster's members joins it.  The sums are updated: a step costs one distance per row, from the newest member.
#include "parts.cuh"

// A part, and what is stored per row.  A row that a cluster has taken has far < 0.
struct Part {
    const int* x;  // (d, stride)
    long long stride;
    int d, size;
    long long* far;     // distance from the last seed
    long long* sum;     // sum of the distances from the members of the current cluster
    long long* pairs;   // sum _{i<j} D(i, j) of each cluster, used for leftover rows
    long long* labels;  // cluster of each row, -1 for none
    long long first;    // number of the part's first cluster
};

__device__ __forceinline__ void take(const Part& part, int row, int cluster) {
    if (!owns(row)) return;
    part.far[row] = -1;
    part.labels[row] = part.first + cluster;
}

// Add the distances from `member` to the sums, and choose the free row with the least sum.  A seed resets them.
template <bool GOWER>
__device__ __forceinline__ int nearest_to_cluster(const Part& part, int member, bool seed, const int* mismatch,
                                                  Meeting& meeting) {
    Choice best = nothing_yet<false>();
    const int apart = blockDim.x;
    for (int first = threadIdx.x; first < part.size; first += AT_ONCE * apart) {
        long long from_member[AT_ONCE];
        distances<GOWER>(part.x, part.stride, part.d, part.size, first, apart, member, mismatch, from_member);
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            const int row = first + r * apart;
            if (row >= part.size || part.far[row] < 0) continue;
            const long long sum = seed ? from_member[r] : part.sum[row] + from_member[r];
            if (seed) part.far[row] = sum;
            part.sum[row] = sum;
            consider<false>(best, sum, row);
        }
    }
    return best_of_block<false>(best, meeting).row;
}

__device__ __forceinline__ int furthest_from_seed(const Part& part, Meeting& meeting) {
    Choice best = nothing_yet<true>();
    for (int row = threadIdx.x; row < part.size; row += blockDim.x)
        if (part.far[row] >= 0) consider<true>(best, part.far[row], row);
    return best_of_block<true>(best, meeting).row;
}

__device__ __forceinline__ int lowest_free(const Part& part, Meeting& meeting) {
    Choice best = nothing_yet<false>();
    for (int row = threadIdx.x; row < part.size; row += blockDim.x)
        if (part.far[row] >= 0) consider<false>(best, 0, row);
    return best_of_block<false>(best, meeting).row;
}

// Distance of two rows of the part.
template <bool GOWER>
__device__ __forceinline__ long long distance(const Part& part, int row, int other, const int* mismatch) {
    long long sum = 0;
    for (int j = 0; j < part.d; ++j) {
        const int* column = part.x + j * part.stride;
        sum += column_distance<GOWER>(column[row] - column[other], GOWER ? mismatch[j] : 0);
    }
    return sum;
}

// Sum of `sum` over the members of a cluster, and their number.
__device__ __forceinline__ long long total(const Part& part, int cluster, int& members) {
    long long total = 0;
    members = 0;
    for (int row = 0; row < part.size; ++row)
        if (part.labels[row] == part.first + cluster) {
            total += part.sum[row];
            ++members;
        }
    return total;
}

// sum _{i<j} D(i, j) of each cluster, by thread t for the clusters t, t + blockDim.x, ...
template <bool GOWER>
__device__ __forceinline__ void sum_pairs(const Part& part, int clusters, const int* mismatch) {
    for (int row = threadIdx.x; row < part.size; row += blockDim.x) {
        long long from_later = 0;
        for (int other = row + 1; other < part.size; ++other)
            if (part.labels[other] == part.labels[row]) from_later += distance<GOWER>(part, row, other, mismatch);
        part.sum[row] = from_later;
    }
    __syncthreads();
    int members;
    for (int cluster = threadIdx.x; cluster < clusters; cluster += blockDim.x)
        part.pairs[cluster] = total(part, cluster, members);
    __syncthreads();
}

// The fewer than k rows that remain join, in ascending order, the cluster whose distortion sum _{i<j} D(i, j) / |C| they
// raise least, rounded down to a whole number; ties: the oldest.
template <bool GOWER>
__device__ __forceinline__ void place_leftovers(const Part& part, int k, const int* mismatch, Meeting& meeting) {
    const int clusters = part.size / k;
    int late = lowest_free(part, meeting);
    sum_pairs<GOWER>(part, clusters, mismatch);
    for (int left = part.size % k; left > 0; --left) {
        for (int row = threadIdx.x; row < part.size; row += blockDim.x)
            part.sum[row] = distance<GOWER>(part, row, late, mismatch);
        __syncthreads();
        Choice best = nothing_yet<false>();
        long long nearest = 0;
        for (int cluster = threadIdx.x; cluster < clusters; cluster += blockDim.x) {
            int members;
            const long long sum = total(part, cluster, members), size = members;
            consider<false>(best, (size * sum - part.pairs[cluster]) / (size * (size + 1)), cluster);
            if (best.row == cluster) nearest = sum;
        }
        const int chosen = best_of_block<false>(best, meeting).row;
        if (best.row == chosen) part.pairs[chosen] += nearest;
        take(part, late, chosen);
        if (left > 1) late = lowest_free(part, meeting);
    }
}

template <bool GOWER>
__device__ __forceinline__ void cluster_part(const Part& part, int k, const int* mismatch, Meeting& meeting) {
    for (int row = threadIdx.x; row < part.size; row += blockDim.x) {
        part.far[row] = 0;
        part.labels[row] = -1;
    }
    nearest_to_cluster<GOWER>(part, 0, true, mismatch, meeting);  // the first seed is furthest from the lowest row
    for (int cluster = 0; cluster < part.size / k; ++cluster) {
        int newest = furthest_from_seed(part, meeting);
        take(part, newest, cluster);
        int member = 1;
        do {  // at least once, even for k = 1: it also measures the distances from the seed
            newest = nearest_to_cluster<GOWER>(part, newest, member == 1, mismatch, meeting);
            if (member < k) take(part, newest, cluster);
        } while (++member < k);
    }
    if (part.size % k) place_leftovers<GOWER>(part, k, mismatch, meeting);
}

// x        : (d, n) whole numbers, rows sorted by part;  starts : (parts + 1) offsets of the parts
// first    : (parts) number of each part's first cluster;  k : at most the size of each part
// mismatch : (d) for Gower's metric, the distance of two categories, -1 for numeric columns; null for the Euclidean metric
// pairs    : (n), of which a part uses one number per cluster
// room     : rows that fit shared memory, and one more, with d words and 2 of 8 bytes each
// scratch  : (2, n), for parts with more rows than that; may be null if there is none
// labels   : (n) cluster of each row
extern "C" __global__ void __launch_bounds__(512, 1)
kmember(const int* __restrict__ x, const long long* __restrict__ starts, const long long* __restrict__ first, int d, int k,
        const int* __restrict__ mismatch, long long* pairs, int room, long long n, long long* scratch, long long* labels) {
    DYN_SHARED(long long, shared);
    __shared__ long long values[SLOTS];
    __shared__ int rows[SLOTS];
    const long long start = starts[blockIdx.x];
    const int size = (int)(starts[blockIdx.x + 1] - start);
    Meeting meeting = {values, rows, 0};
    if (size <= room) {
        int* copy = reinterpret_cast<int*>(shared + 2 * size);
        stage(x + start, n, d, size, copy);
        const Part part = {copy, staged_stride(size), d, size, shared, shared + size, pairs + start, labels + start,
                           first[blockIdx.x]};
        mismatch ? cluster_part<true>(part, k, mismatch, meeting) : cluster_part<false>(part, k, mismatch, meeting);
    } else {
        long long* far = scratch + start;
        const Part part = {x + start, n, d, size, far, far + n, pairs + start, labels + start, first[blockIdx.x]};
        mismatch ? cluster_part<true>(part, k, mismatch, meeting) : cluster_part<false>(part, k, mismatch, meeting);
    }
}
