// NVIDIA's own occupancy calculation (cuda_occupancy.h) for the cases on standard input, one a line:
// major minor threads_per_sm shared_per_sm reserved threads registers shared
#include <cstddef>
#include <cstdio>
#define __CUDA_OCC_INLINE inline
#include <cuda_occupancy.h>

int main() {
    int major, minor, threads_per_sm, shared_per_sm, reserved, threads, registers, shared;
    while (std::scanf("%d %d %d %d %d %d %d %d", &major, &minor, &threads_per_sm, &shared_per_sm, &reserved, &threads,
                      &registers, &shared) == 8) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads_per_sm;
        device.regsPerBlock = 65536;
        device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 << 10;
        device.sharedMemPerMultiprocessor = shared_per_sm;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = shared_per_sm - reserved;
        device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes function;
        function.maxThreadsPerBlock = 1024;
        function.numRegs = registers;
        function.sharedSizeBytes = 0;
        function.partitionedGCConfig = PARTITIONED_GC_OFF;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        function.maxDynamicSharedSizeBytes = shared_per_sm - reserved;
        function.numBlockBarriers = 1;
        cudaOccDeviceState state;
        cudaOccResult result;
        const int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, shared);
        std::printf("%d\n", error ? -1 : result.activeBlocksPerMultiprocessor);
    }
}
