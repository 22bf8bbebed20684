// Optimal groups of one sorted column (Hansen and Mukherjee 2003) as shortest paths.  A node is a place between two values,
// an edge is a group of k to 2k - 1 consecutive values, and its length is the group's sum of squared errors.
// The column is cut into chunks.  chunk_paths finds, for each chunk, the shortest paths from each node at which a path may
// enter it (one of its first 2k - 1) to each node at which it may enter the next one; chunk_entries the shortest path through
// all chunks; chunk_cuts the nodes of that path inside each chunk.
// Values are whole numbers: with sums t of the values and q of their squares, m q - t^2 is exact, also where the running
// sums wrap around.  Its division by the size m of the group and the sums along a path round as in NumPy: the groups are
// the same on the host.
#include "parts.cuh"

constexpr int WARPS = WARP == 1 ? 1 : 4;
constexpr int THREADS = WARPS * WARP;

__device__ __forceinline__ double infinity() { return (double)__int_as_float(0x7f800000); }

// The difference of two running sums, which may have wrapped around.
__device__ __forceinline__ long long apart(long long later, long long earlier) {
    return (long long)((unsigned long long)later - (unsigned long long)earlier);
}

// The ordered column, and the size of its groups.
struct Column {
    const long long *sums, *squares;  // (features, n + 1) running sums of the values, and (n + 1) of their squares
    long long n;
    int features, k;

    // The sum of squared errors of the m values that begin at first.
    __device__ __forceinline__ double error(long long first, int m) const {
        long long error = m * apart(squares[first + m], squares[first]);
        for (int f = 0; f < features; ++f) {
            const long long* column = sums + f * (n + 1) + first;
            const long long total = apart(column[m], column[0]);
            error -= total * total;
        }
        return (double)error / (double)m;
    }
};

// A length, and the edge that it comes from; ties go to the smaller edge.
struct Shortest {
    double length;
    int edge;

    __device__ __forceinline__ void offer(double other, int its_edge) {
        if (other < length || (other == length && its_edge < edge)) {
            length = other;
            edge = its_edge;
        }
    }

    // The shortest of the warp, in all its lanes.
    __device__ __forceinline__ void meet() {
        for (int far = WARP / 2; far > 0; far /= 2) {
            const double other = __shfl_xor_sync(ALL_LANES, length, far);
            offer(other, __shfl_xor_sync(ALL_LANES, edge, far));
        }
    }
};

// A chunk: its first value and its size.  The nodes of a path are counted from the first value.
struct Chunk {
    long long begin;
    int size;
};

// Lengths of the shortest paths to the nodes from .. to - 1, for each of `count` entries; entry e is node entry + e.
// ring    : (count, 2k) the lengths to the last 2k nodes
// lengths : (k) scratch in shared memory
// steps   : the last edge of the path to each node, for one entry; null for several
__device__ __forceinline__ void find_paths(const Column& column, const Chunk& chunk, int entry, int count, int from, int to,
                                           double* ring, double* lengths, int* steps) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, k = column.k, span = 2 * k;
    for (int at = from; at < to; ++at) {
        for (int j = threadIdx.x; j < k; j += THREADS) {  // groups of k + j values
            const int first = at - k - j;
            const bool inside = first >= 0 && first < chunk.size && chunk.begin + at <= column.n;
            lengths[j] = inside ? column.error(chunk.begin + first, k + j) : infinity();
        }
        __syncthreads();
        for (int e = warp; e < count; e += WARPS) {
            double* own = ring + e * span;
            Shortest best = {infinity(), k};
            for (int j = lane; j < k; j += WARP)
                if (at - k - j >= 0) best.offer(own[(at - k - j) % span] + lengths[j], j);
            best.meet();
            if (lane == 0) {
                own[at % span] = at == entry + e ? 0.0 : best.length;
                if (steps) steps[at] = k + best.edge;
            }
        }
        __syncthreads();
    }
}

// Before any step: no path but the empty one.
__device__ __forceinline__ void begin_paths(int entry, int count, int span, double* ring) {
    for (int t = threadIdx.x; t < count * span; t += THREADS) ring[t] = t % span == entry + t / span ? 0.0 : infinity();
    __syncthreads();
}

// sums, squares, n, features, k : as above
// borders : (chunks + 1) first value of each chunk, and n
// entries : 2k - 1
// between : (chunks, entries, entries) lengths of the shortest paths from each entry to each entry of the next chunk
extern "C" __global__ void __launch_bounds__(128, 1)
chunk_paths(const long long* __restrict__ sums, const long long* __restrict__ squares, long long n, int features, int k,
            const long long* __restrict__ borders, int entries, double* __restrict__ between) {
    DYN_SHARED(double, ring);
    const Column column = {sums, squares, n, features, k};
    const long long begin = borders[blockIdx.x];
    const Chunk chunk = {begin, (int)(borders[blockIdx.x + 1] - begin)};
    const int span = 2 * k;
    begin_paths(0, entries, span, ring);
    find_paths(column, chunk, 0, entries, k, chunk.size + span - 1, ring, ring + entries * span, nullptr);
    between += (long long)blockIdx.x * entries * entries;
    for (int t = threadIdx.x; t < entries * entries; t += THREADS)
        between[t] = ring[t / entries * span + (chunk.size + t % entries) % span];
}

// One thread block.  came : (chunks, entries) scratch;  entry : (chunks + 1) the node at which the best path enters each chunk
extern "C" __global__ void __launch_bounds__(128, 1)
chunk_entries(const double* __restrict__ between, int chunks, int entries, int* came, int* __restrict__ entry) {
    DYN_SHARED(double, best);  // two sets of lengths, which take turns
    for (int e = threadIdx.x; e < entries; e += THREADS) best[e] = e == 0 ? 0.0 : infinity();
    __syncthreads();
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const double *now = best + (chunk & 1) * entries, *lengths = between + (long long)chunk * entries * entries;
        double* next = best + (~chunk & 1) * entries;
        for (int e = threadIdx.x; e < entries; e += THREADS) {
            Shortest found = {infinity(), 0};
            for (int other = 0; other < entries; ++other) found.offer(now[other] + lengths[other * entries + e], other);
            next[e] = found.length;
            came[(long long)chunk * entries + e] = found.edge;
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    entry[chunks] = 0;  // the last chunk ends with the column
    for (int chunk = chunks - 1; chunk >= 0; --chunk) entry[chunk] = came[(long long)chunk * entries + entry[chunk + 1]];
}

// from, to : nodes of this launch, of the largest chunk; a long column without chunks takes several launches
// ring     : (2k) in global memory, if there are several launches; else null
// steps    : (n + chunks * 2k) scratch;  first : (n) set to 1 where a group begins, in the launch in which a chunk ends
extern "C" __global__ void __launch_bounds__(128, 1)
chunk_cuts(const long long* __restrict__ sums, const long long* __restrict__ squares, long long n, int features, int k,
           const long long* __restrict__ borders, const int* __restrict__ entry, int from, int to, double* ring, int* steps,
           unsigned char* __restrict__ first) {
    DYN_SHARED(double, shared);
    const Column column = {sums, squares, n, features, k};
    const long long begin = borders[blockIdx.x];
    const Chunk chunk = {begin, (int)(borders[blockIdx.x + 1] - begin)};
    const int enter = entry[blockIdx.x], end = chunk.size + entry[blockIdx.x + 1];
    double *lengths = shared, *own = ring ? ring : shared + k;
    steps += begin + (long long)blockIdx.x * 2 * k;
    if (from == 0) begin_paths(enter, 1, 2 * k, own);
    find_paths(column, chunk, enter, 1, from > k ? from : k, to < end + 1 ? to : end + 1, own, lengths, steps);
    if (threadIdx.x != 0 || to <= end) return;
    for (int at = end; at > enter;) {
        at -= steps[at];
        first[begin + at] = 1;
    }
}
