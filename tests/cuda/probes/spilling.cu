// More live values than the launch bounds leave registers for: the gate must see it spill.
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* __restrict__ x, float* __restrict__ y) {
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
#pragma unroll
    for (int round = 0; round < 4; ++round)
#pragma unroll
        for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 17) % 64] + v[(i + 5) % 64];
#pragma unroll
    for (int i = 0; i < 64; ++i) y[i * 1024 + threadIdx.x] = v[i];
}
