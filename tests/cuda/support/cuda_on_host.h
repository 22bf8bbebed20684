// Runs a kernel file on the host: every CUDA thread is a fiber, one block at a time, so that g++'s sanitizers see the
// very source that NVIDIA's compiler gets.  This file is put before the kernel file; host_runtime.cpp is the rest of
// the program.
//
// A fiber runs until it waits (a barrier, a shuffle, a vote) or ends.  Shared memory is filled with 0xFF bytes (NaN,
// −1) before each block.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static const
#define __shared__ static __attribute__((section("cuda_shared")))

__attribute__((section("cuda_shared"), used)) static char keeps_the_section_alive[16];

namespace host {

constexpr unsigned WARP_LANES = 32;

struct Fiber {
    unsigned number;    // in its block
    uint3 index;        // threadIdx
    unsigned members;   // mask of the warp operation it waits at
    int line;           // where it waits
    bool vote;          // what it said at a block-wide vote
    uint64_t value;     // what it offers to a warp operation
};

extern Fiber* running;
extern dim3 grid, block;
extern uint3 block_index;
extern unsigned char* dynamic_shared;
extern int block_votes;  // how many threads said yes at the last block-wide vote

[[noreturn]] void fail(const char* what, int line);
void wait_for_block(int line, bool vote);
void wait_for_warp(unsigned members, int line);
Fiber& neighbour(unsigned lane);

inline unsigned lane() { return running->number % WARP_LANES; }

template <class T>
void offer(T value) {
    static_assert(sizeof(T) <= 8);
    running->value = 0;
    std::memcpy(&running->value, &value, sizeof value);
}

template <class T>
T offered(unsigned lane) {
    T value;
    std::memcpy(&value, &neighbour(lane).value, sizeof value);
    return value;
}

// Everybody puts down a value, waits, picks up another lane's, and waits again so that nobody overwrites it too early.
template <class T>
T exchange(unsigned members, T value, unsigned from, int line) {
    offer(value);
    wait_for_warp(members, line);
    if (!(members >> from & 1)) fail("a shuffle reads from a lane that takes no part", line);
    const T result = offered<T>(from);
    wait_for_warp(members, line);
    return result;
}

inline int width(int width = (int)WARP_LANES) { return width; }

// The lane that a shuffle inside segments of `width` lanes reads from.
inline unsigned from_lane(unsigned lane, int width) { return host::lane() / width * width + lane % width; }
inline unsigned from_above(unsigned by, int width) { return host::lane() % width + by < (unsigned)width ? host::lane() + by : host::lane(); }
inline unsigned from_below(unsigned by, int width) { return host::lane() % width >= by ? host::lane() - by : host::lane(); }
inline unsigned from_across(unsigned mask, int width) {
    const unsigned other = host::lane() ^ mask;
    return other / width > host::lane() / width ? host::lane() : other;
}

template <class T, class Combine>
T over_warp(unsigned members, T value, int line, Combine combine) {
    offer(value);
    wait_for_warp(members, line);
    T result = value;
    for (unsigned other = 0; other < WARP_LANES; ++other)
        if ((members >> other & 1) && other != lane()) result = combine(result, offered<T>(other));
    wait_for_warp(members, line);
    return result;
}

inline unsigned ballot(unsigned members, bool said, int line) {
    return over_warp(members, said ? 1u << lane() : 0u, line, [](unsigned a, unsigned b) { return a | b; });
}

// A kernel that can be launched by name; its arguments come as bytes.
struct Kernel {
    const char* name;
    void (*call)(char* const* arguments);
    const size_t* sizes;
    size_t count;
    Kernel* next;
};
extern Kernel* kernels;

template <auto kernel>
struct Known;
template <class... Args, void (*kernel)(Args...)>
struct Known<kernel> {
    static constexpr size_t sizes[sizeof...(Args) + 1] = {sizeof(Args)..., 0};
    template <size_t... I>
    static void call_with(char* const* arguments, std::index_sequence<I...>) {
        std::tuple<std::decay_t<Args>...> values;
        (std::memcpy((void*)&std::get<I>(values), arguments[I], sizeof(std::get<I>(values))), ...);
        std::apply(kernel, values);
    }
    static void call(char* const* arguments) { call_with(arguments, std::index_sequence_for<Args...>{}); }
    Kernel entry;
    explicit Known(const char* name) : entry{name, call, sizes, sizeof...(Args), kernels} { kernels = &entry; }
};

}  // namespace host

#define threadIdx (host::running->index)
#define blockIdx (host::block_index)
#define blockDim (host::block)
#define gridDim (host::grid)
#define warpSize 32

#define DYN_SHARED(type, name) type* name = reinterpret_cast<type*>(host::dynamic_shared)
#define __syncthreads() host::wait_for_block(__LINE__, false)
#define __syncthreads_count(said) (host::wait_for_block(__LINE__, (said) != 0), host::block_votes)
#define __syncthreads_or(said) (host::wait_for_block(__LINE__, (said) != 0), host::block_votes > 0)
#define __syncthreads_and(said) (host::wait_for_block(__LINE__, (said) == 0), host::block_votes == 0)
#define __syncwarp(...) host::wait_for_warp(0xffffffffu, __LINE__)
#define __shfl_sync(members, value, lane, ...) \
    host::exchange(members, value, host::from_lane((unsigned)(lane), host::width(__VA_ARGS__)), __LINE__)
#define __shfl_xor_sync(members, value, mask, ...) \
    host::exchange(members, value, host::from_across((unsigned)(mask), host::width(__VA_ARGS__)), __LINE__)
#define __shfl_down_sync(members, value, by, ...) \
    host::exchange(members, value, host::from_above((unsigned)(by), host::width(__VA_ARGS__)), __LINE__)
#define __shfl_up_sync(members, value, by, ...) \
    host::exchange(members, value, host::from_below((unsigned)(by), host::width(__VA_ARGS__)), __LINE__)
#define __ballot_sync(members, said) host::ballot(members, (said) != 0, __LINE__)
#define __any_sync(members, said) ((int)(host::ballot(members, (said) != 0, __LINE__) != 0))
#define __all_sync(members, said) ((int)(host::ballot(members, (said) == 0, __LINE__) == 0))
#define __reduce_add_sync(members, value) host::over_warp(members, value, __LINE__, [](auto a, auto b) { return a + b; })
#define __reduce_min_sync(members, value) host::over_warp(members, value, __LINE__, [](auto a, auto b) { return b < a ? b : a; })
#define __reduce_max_sync(members, value) host::over_warp(members, value, __LINE__, [](auto a, auto b) { return a < b ? b : a; })

inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T, class U>
T atomicAdd(T* where, U value) {
    const T old = *where;
    *where = old + (T)value;
    return old;
}
template <class T, class U>
T atomicMin(T* where, U value) {
    const T old = *where;
    *where = (T)value < old ? (T)value : old;
    return old;
}
template <class T, class U>
T atomicMax(T* where, U value) {
    const T old = *where;
    *where = old < (T)value ? (T)value : old;
    return old;
}
template <class T, class U, class V>
T atomicCAS(T* where, U expected, V value) {
    const T old = *where;
    if (old == (T)expected) *where = (T)value;
    return old;
}
template <class T, class U>
T atomicExch(T* where, U value) {
    const T old = *where;
    *where = (T)value;
    return old;
}
template <class T, class U>
T atomicOr(T* where, U value) {
    const T old = *where;
    *where = old | (T)value;
    return old;
}
template <class T>
T __ldg(const T* where) {
    return *where;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline float __int_as_float(int x) {
    float y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
inline int __float_as_int(float x) {
    int y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
inline float __uint_as_float(unsigned x) { return __int_as_float((int)x); }
inline unsigned __float_as_uint(float x) { return (unsigned)__float_as_int(x); }
inline double __longlong_as_double(long long x) {
    double y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
inline long long __double_as_longlong(double x) {
    long long y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
inline float normcdf(float x) { return (float)normcdf((double)x); }
inline float normcdff(float x) { return normcdf(x); }

// The inverse normal distribution function: bisection, then Newton's steps; slow and plain.
inline double normcdfinv(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p > 0.5) return -normcdfinv(1 - p);  // exact, and the lower tail has all its digits
    double low = -40, high = 40;
    for (int i = 0; i < 200 && high - low > 1e-17 * std::fabs(low); ++i) {
        const double middle = 0.5 * (low + high);
        // Round the median it is erf that has all its digits.
        const bool below = p > 0.25 ? 0.5 * std::erf(middle * 0.70710678118654752440) < p - 0.5 : normcdf(middle) < p;
        (below ? low : high) = middle;
    }
    return 0.5 * (low + high);
}
inline float normcdfinv(float p) { return (float)normcdfinv((double)p); }
inline float normcdfinvf(float p) { return normcdfinv(p); }
inline double erfcx(double x) {
    return x < 25 ? std::exp(x * x) * std::erfc(x) : 0.56418958354775628695 / x * (1 - 0.5 / (x * x) + 0.75 / (x * x * x * x));
}

using std::abs, std::ceil, std::copysign, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::floor;
using std::fma, std::fmax, std::fmin, std::isfinite, std::isinf, std::isnan, std::log, std::log1p, std::log2;
using std::pow, std::rint, std::sqrt, std::tanh, std::trunc;

template <class T, class U>
auto min(T a, U b) {
    using Common = std::common_type_t<T, U>;
    return (Common)b < (Common)a ? (Common)b : (Common)a;
}
template <class T, class U>
auto max(T a, U b) {
    using Common = std::common_type_t<T, U>;
    return (Common)a < (Common)b ? (Common)b : (Common)a;
}
