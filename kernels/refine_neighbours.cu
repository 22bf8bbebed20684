// The nearest groups of each group inside its cell.
// One thread block per cell, one thread per group.
#include "parts.cuh"

constexpr int NOBODY = 0x7fffffff;

// The nearest so far, in shared memory, entry by entry: consecutive threads use consecutive words.  An entry is a
// squared distance rounded to float, which sorts like its bits, with the group's place in the lowest bits.
struct Nearest {
    int* keys;
    int count, mask;

    __device__ __forceinline__ int& at(int entry) const { return keys[entry * blockDim.x + threadIdx.x]; }

    __device__ __forceinline__ void offer(long long distance, int place) {
        const int key = (__float_as_int((float)distance) & ~mask) | place;
        int entry = count;
        for (; entry > 0 && key < at(entry - 1); --entry)
            if (entry < count) at(entry) = at(entry - 1);
        if (entry < count) at(entry) = key;
    }
};

// Compare a group with all others of its cell, whose columns start at x, `stride` apart.
__device__ __forceinline__ void search_cell(const int* x, long long stride, int d, int size, int own, Nearest& nearest) {
    for (int other = 0; other < size; ++other) {
        long long sum = 0;
        for (int j = 0; j < d; ++j) {
            const int e = x[j * stride + own] - x[j * stride + other];
            sum += (long long)e * e;
        }
        if (other != own) nearest.offer(sum, other);
    }
}

// All groups of a cell, one thread each.  near : from the first place of the cell on
__device__ __forceinline__ void search(const int* x, long long stride, int d, int size, long long start, long long groups,
                                       Nearest& nearest, long long* __restrict__ near) {
    for (int own = threadIdx.x; own < size; own += blockDim.x) {
        for (int entry = 0; entry < nearest.count; ++entry) nearest.at(entry) = NOBODY;
        search_cell(x, stride, d, size, own, nearest);
        for (int entry = 0; entry < nearest.count; ++entry) {
            const int key = nearest.at(entry);
            near[entry * groups + own] = start + (key == NOBODY ? own : key & nearest.mask);
        }
    }
}

// centres : (d, groups) whole numbers, sorted by cell;  starts : (cells + 1) offsets of the cells
// mask    : bits that hold a place in a cell
// room    : groups of a cell that fit shared memory, with d numbers each, and one more, after the lists of count
//           entries per thread
// near    : (count, groups) for each place the places of its nearest groups, nearest first; ties: the first one;
//           its own place if there are too few others
extern "C" __global__ void __launch_bounds__(128, 1)
neighbours(const int* __restrict__ centres, const long long* __restrict__ starts, long long groups, int d, int count,
           int mask, int room, long long* __restrict__ near) {
    DYN_SHARED(int, shared);
    const long long start = starts[blockIdx.x];
    const int size = (int)(starts[blockIdx.x + 1] - start);
    int* copy = shared + count * blockDim.x;
    Nearest nearest = {shared, count, mask};
    near += start;
    if (size <= room) {
        stage(centres + start, groups, d, size, copy);
        search(copy, staged_stride(size), d, size, start, groups, nearest, near);
    } else {
        search(centres + start, groups, d, size, start, groups, nearest, near);
    }
}
