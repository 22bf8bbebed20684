// Which groups are near each other: for each of them the nearest inside its cell.
// One cell of a partition of the groups a thread block, one thread a group.
#include "parts.cuh"

// The nearest so far, in shared memory, entry after entry: neighbouring threads use neighbouring words.
struct Nearest {
    real* distances;
    int* rows;
    int count;

    __device__ __forceinline__ int at(int entry) const { return entry * blockDim.x + threadIdx.x; }

    // Ascending by distance; of equals the first that was offered comes first.
    __device__ __forceinline__ void offer(real distance, int row) {
        int entry = count;
        for (; entry > 0 && distance < distances[at(entry - 1)]; --entry)
            if (entry < count) {
                distances[at(entry)] = distances[at(entry - 1)];
                rows[at(entry)] = rows[at(entry - 1)];
            }
        if (entry == count) return;
        distances[at(entry)] = distance;
        rows[at(entry)] = row;
    }
};

// Offer a group all others of its cell, whose columns begin at x, `stride` apart.
__device__ __forceinline__ void search_cell(const real* x, long long stride, int d, int size, int own, Nearest& nearest) {
    for (int other = 0; other < size; ++other) {
        real sum = real(0);
        for (int j = 0; j < d; ++j) {
            const real e = x[j * stride + own] - x[j * stride + other];
            sum += e * e;
        }
        if (other != own) nearest.offer(sum, other);
    }
}

// All groups of a cell, one thread each.  near : from the cell's first place on
__device__ __forceinline__ void search(const real* x, long long stride, int d, int size, long long start, long long groups,
                                       Nearest& nearest, long long* __restrict__ near) {
    for (int own = threadIdx.x; own < size; own += blockDim.x) {
        for (int entry = 0; entry < nearest.count; ++entry) {
            nearest.distances[nearest.at(entry)] = INFINITE;
            nearest.rows[nearest.at(entry)] = own;
        }
        search_cell(x, stride, d, size, own, nearest);
        for (int entry = 0; entry < nearest.count; ++entry)
            near[entry * groups + own] = start + nearest.rows[nearest.at(entry)];
    }
}

// centres : (d, groups), cell after cell;  starts : (cells + 1) offsets of the cells
// room    : groups of a cell for which there is shared memory, d numbers for each, and for one more, after the lists:
//           count entries a thread, of a real and an int
// near    : (count, groups) places of the groups nearest to that at each place, nearest first, and of equals the first
//           one; its own place where there are too few others
extern "C" __global__ void __launch_bounds__(128, 1)
neighbours(const real* __restrict__ centres, const long long* __restrict__ starts, long long groups, int d, int count,
           int room, long long* __restrict__ near) {
    DYN_SHARED(real, shared);
    const long long start = starts[blockIdx.x];
    const int size = (int)(starts[blockIdx.x + 1] - start);
    real* copy = shared + count * blockDim.x;
    int* list = reinterpret_cast<int*>(copy + (long long)d * (room + 1));
    Nearest nearest = {shared, list, count};
    near += start;
    if (size <= room) {
        stage(centres + start, groups, d, size, copy);
        search(copy, staged_stride(size), d, size, start, groups, nearest, near);
    } else {
        search(centres + start, groups, d, size, start, groups, nearest, near);
    }
}
