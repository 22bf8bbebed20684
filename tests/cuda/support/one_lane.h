// Runs a kernel file on the host as plain C++, with one lane per warp: a shuffle returns a lane's own value, a vote is its
// own, and with one thread per block a barrier is nothing.  What is left is the algorithm of the source itself, compiled
// with optimisation, for problems of real size.  Nothing here is shared with cuda_on_host.h, which runs every thread.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#define LANES 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static

struct Place {
    unsigned x, y, z;
};

namespace one_lane {
inline Place thread, block, threads, blocks;  // threadIdx, blockIdx, blockDim, gridDim
inline unsigned char* shared;
}  // namespace one_lane

#define threadIdx one_lane::thread
#define blockIdx one_lane::block
#define blockDim one_lane::threads
#define gridDim one_lane::blocks
#define DYN_SHARED(type, name) type* name = reinterpret_cast<type*>(one_lane::shared)

#ifdef NO_BARRIERS  // threads run in turn: a kernel with a barrier does not compile
#define __syncthreads() static_assert(false, "a barrier, and threads that run in turn")
#else
#define __syncthreads() ((void)0)
#endif
#define __syncwarp(...) ((void)0)

template <class T>
inline T __shfl_xor_sync(unsigned, T own, int) { return own; }
template <class T>
inline T __shfl_down_sync(unsigned, T own, int) { return own; }

template <class T>
inline T atomicAdd(T* at, T value) { return std::exchange(*at, *at + value); }
template <class T>
inline T atomicMax(T* at, T value) { return std::exchange(*at, *at < value ? value : *at); }

template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __int_as_float(int bits) { return bits_as<float>(bits); }
inline int __float_as_int(float number) { return bits_as<int>(number); }
inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
inline long long __double_as_longlong(double number) { return bits_as<long long>(number); }
inline double __dmul_rn(double a, double b) { return a * b; }  // compiled without contraction
inline double __dadd_rn(double a, double b) { return a + b; }
inline double normcdf(double z) { return 0.5 * std::erfc(-z / 1.4142135623730950488); }
inline float normcdff(float z) { return (float)normcdf((double)z); }
using std::abs, std::ceil, std::exp, std::fabs, std::fma, std::log, std::sqrt;

namespace one_lane {

constexpr size_t GUARD = 256;
constexpr unsigned char FRESH = 0xFF, FENCE = 0xA5;

template <auto kernel>
struct Call;

// Call a kernel for every thread of every block of a grid; its arguments come as bytes.  Shared memory is filled before each
// block, and followed by bytes that must not change.  Returns 0, or 1 if they did.
template <class... Args, void (*kernel)(Args...)>
struct Call<kernel> {
    template <size_t... I>
    static int run(Place grid, Place size, size_t bytes, char* const* given, std::index_sequence<I...>) {
        std::tuple<std::decay_t<Args>...> values;
        (std::memcpy((void*)&std::get<I>(values), given[I], sizeof(std::get<I>(values))), ...);
        blocks = grid;
        threads = size;
        shared = static_cast<unsigned char*>(std::aligned_alloc(16, (bytes + GUARD + 15) / 16 * 16));
        std::memset(shared + bytes, FENCE, GUARD);
        int broken = 0;
        for (block.y = 0; block.y < grid.y; ++block.y)
            for (block.x = 0; block.x < grid.x; ++block.x) {
                std::memset(shared, FRESH, bytes);
                for (thread.x = 0; thread.x < size.x; ++thread.x) std::apply(kernel, values);
                for (size_t i = 0; i < GUARD; ++i) broken |= shared[bytes + i] != FENCE;
            }
        std::free(shared);
        return broken;
    }
    static int run(Place grid, Place size, size_t bytes, char* const* given) {
        return run(grid, size, bytes, given, std::index_sequence_for<Args...>{});
    }
};

}  // namespace one_lane
