// Runs a kernel file on the host as plain C++, with one lane per warp: a shuffle returns a lane's own value, a vote is its
// own, and with one thread per block a barrier is nothing.  What is left is the algorithm of the source itself, compiled
// with optimisation, for problems of real size.  Nothing here is shared with cuda_on_host.h, which runs every thread.
//
// IN_TURN : for kernels without barriers, every thread by itself, to its end
// IN_STEP : for kernels whose threads share tiles, all threads of a block, from barrier to barrier (in_step.h)
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("cuda_shared")))

struct Place {
    unsigned x, y, z;
};

namespace one_lane {
inline Place thread, block, threads, blocks;  // threadIdx, blockIdx, blockDim, gridDim
inline unsigned char* shared;
}  // namespace one_lane

extern "C" __attribute__((visibility("hidden"))) unsigned char __start_cuda_shared[], __stop_cuda_shared[];
__shared__ __attribute__((used)) char keeps_the_section_alive[16];

#define threadIdx one_lane::thread
#define blockIdx one_lane::block
#define blockDim one_lane::threads
#define gridDim one_lane::blocks
#define DYN_SHARED(type, name) type* name = reinterpret_cast<type*>(one_lane::shared)

#ifdef IN_STEP
#include "in_step.h"
#define __syncthreads() one_lane::wait(__LINE__)
#else  // what follows exchanges nothing: IN_STEP, a kernel that uses it does not compile
#define LANES 1
#ifdef IN_TURN
#define __syncthreads() static_assert(false, "a barrier, and threads that run in turn")
#else
#define __syncthreads() ((void)0)
#endif
#define __syncwarp(...) ((void)0)

template <class T>
inline T __shfl_xor_sync(unsigned, T own, int) { return own; }
template <class T>
inline T __shfl_down_sync(unsigned, T own, int) { return own; }
#endif

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

enum Fault { NONE, BEYOND_SHARED, DIFFERENT_BARRIERS };
constexpr size_t GUARD = 256;
constexpr unsigned char FRESH = 0xFF, FENCE = 0xA5;

template <auto kernel>
struct Call;

// Call a kernel for every thread of every block of a grid; its arguments come as bytes.  Shared memory is filled before each
// block, and the dynamic one is followed by bytes that must not change.
template <class... Args, void (*kernel)(Args...)>
struct Call<kernel> {
    static inline std::tuple<std::decay_t<Args>...> values;

    static void call() { std::apply(kernel, values); }

    static Fault run_block(size_t bytes) {
        std::memset(shared, FRESH, bytes);
        std::memset(__start_cuda_shared, FRESH, __stop_cuda_shared - __start_cuda_shared);
#ifdef IN_STEP
        if (!run_threads()) return DIFFERENT_BARRIERS;
#else
        for (thread.x = 0; thread.x < threads.x; ++thread.x) call();
#endif
        for (size_t i = 0; i < GUARD; ++i)
            if (shared[bytes + i] != FENCE) return BEYOND_SHARED;
        return NONE;
    }

    template <size_t... I>
    static void take(char* const* given, std::index_sequence<I...>) {
        (std::memcpy((void*)&std::get<I>(values), given[I], sizeof(std::get<I>(values))), ...);
    }

    static int run(Place grid, Place size, size_t bytes, char* const* given) {
        take(given, std::index_sequence_for<Args...>{});
        blocks = grid;
        threads = size;
        shared = static_cast<unsigned char*>(std::aligned_alloc(16, (bytes + GUARD + 15) / 16 * 16));
        std::memset(shared + bytes, FENCE, GUARD);
#ifdef IN_STEP
        make_threads(call);
#endif
        Fault fault = NONE;
        for (block.y = 0; block.y < grid.y && !fault; ++block.y)
            for (block.x = 0; block.x < grid.x && !fault; ++block.x) fault = run_block(bytes);
        std::free(shared);
        return fault;
    }
};

}  // namespace one_lane
