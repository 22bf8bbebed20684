// What threads of a warp and of a block tell each other.
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void shuffles(const int* __restrict__ x, int* __restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    const int v = x[i];
    out[i] = __shfl_xor_sync(ALL, v, 5);
    out[n + i] = __shfl_down_sync(ALL, v, 3);
    out[2 * n + i] = __shfl_up_sync(ALL, v, 2);
    out[3 * n + i] = __shfl_sync(ALL, v, 7);
    out[4 * n + i] = __shfl_sync(ALL, v, 3, 8);
    out[5 * n + i] = __shfl_down_sync(ALL, v, 3, 16);
    out[6 * n + i] = (int)__ballot_sync(ALL, v > 0);
    out[7 * n + i] = __any_sync(ALL, v > 40) + 2 * __all_sync(ALL, v > -90);
    out[8 * n + i] = __reduce_add_sync(ALL, v);
    out[9 * n + i] = __reduce_min_sync(ALL, v);
    out[10 * n + i] = __syncthreads_count(v > 0);
    out[11 * n + i] = __syncthreads_or(v > 95) + 2 * __syncthreads_and(v > -100);
}

// Lanes that part ways, wait for each other in the loop, and meet again.
extern "C" __global__ void divergent(const int* __restrict__ x, int* __restrict__ out) {
    const int i = threadIdx.x;
    int v = x[i], turns = 0;
    while (v > 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        ++turns;
    }
    __syncwarp();
    out[i] = turns + __shfl_xor_sync(ALL, turns, 1);
}

extern "C" __global__ void atomics(const int* __restrict__ x, int* counts, unsigned long long* sum, int n) {
    __shared__ int here[4];
    if (threadIdx.x < 4) here[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&here[x[i] & 3], 1);
        atomicMin(&counts[4], x[i]);
        atomicMax(&counts[5], x[i]);
        atomicAdd(sum, (unsigned long long)x[i]);
        atomicCAS(&counts[6], 0, 17);
        atomicOr(&counts[7], 1 << (x[i] & 7));
    }
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&counts[threadIdx.x], here[threadIdx.x]);
}

// A reduction through shared memory, its barriers in place; each FAULT takes one thing away.
extern "C" __global__ void block_sums(const float* __restrict__ x, float* __restrict__ out, int n) {
    __shared__ float part[128];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
#if FAULT == 1
    part[threadIdx.x] = x[i];
#elif FAULT == 2
    if (i < n) part[threadIdx.x] = x[i];
#elif FAULT == 3
    part[threadIdx.x + 1] = i < n ? x[i] : 0.0f;
#else
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
#endif
#if FAULT != 4
    __syncthreads();
#endif
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
#if FAULT == 5
        if (threadIdx.x < step) {
            part[threadIdx.x] += part[threadIdx.x + step];
            __syncthreads();
        }
#else
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
#if FAULT == 6
        if (step > 32) __syncthreads();
#else
        __syncthreads();
#endif
#endif
    }
#if FAULT == 7
    out[0] = part[0];
#elif FAULT == 8
    if (threadIdx.x == 0) out[blockIdx.x + (n > 0)] = part[0];
#elif FAULT == 9
    while (part[0] == part[0]) {
    }
#elif FAULT == 10
    if (threadIdx.x >= n) return;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
#elif FAULT == 11
    if (threadIdx.x < 5) out[blockIdx.x] = __shfl_xor_sync(0xffffffffu, part[0], 1);
#elif FAULT == 12
    if (threadIdx.x == 0) *(double*)(out + blockIdx.x) = part[0];
#else
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
#endif
}

// Accesses whose cost is known: neighbours, a stride, columns of a square tile with and without padding.
extern "C" __global__ void accesses(const float* __restrict__ x, float* __restrict__ out, int stride) {
    __shared__ float plain[32][32], padded[32][33];
    const int i = threadIdx.x;
    float sum = x[i];
    sum += x[i * stride];
    sum += x[0];
    for (int k = 0; k < 32; ++k) plain[k][i] = padded[k][i] = sum + k;
    __syncwarp();
    sum += plain[i][3];
    sum += padded[i][3];
    out[i] = sum;
}
