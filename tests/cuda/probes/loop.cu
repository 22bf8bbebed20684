// A loop inside a loop, with known contents: two shared loads and one fused multiply-add a turn.
extern "C" __global__ void nested(const float* __restrict__ x, float* __restrict__ y, int n, int m) {
    __shared__ float a[64], b[64];
    a[threadIdx.x] = x[threadIdx.x];
    b[threadIdx.x] = x[threadIdx.x + 64];
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        float sum = 0.0f;
#pragma unroll 1
        for (int j = 0; j < m; ++j) sum += a[(threadIdx.x + j) & 63] * b[j & 63];
        y[i * 64 + threadIdx.x] = sum;
    }
}

extern "C" __global__ void straight(const float* __restrict__ x, float* __restrict__ y) { y[threadIdx.x] = x[threadIdx.x]; }
