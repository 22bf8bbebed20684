// Random numbers as a function of (key, stream, record): Philox 4x32-10 (Salmon et al. 2011).
//
// Counter of a record's w-th word: (record's low half, its high half, w / 4, the stream's tweak).  One thread per number:
// the four words of a counter are recomputed for each number, which costs less than strided writes.
// No parameter is a `real`: a draw does not depend on the type of the table.
#include "normal_quantile.cuh"

struct Words {
    unsigned int w0, w1, w2, w3;
    __device__ __forceinline__ unsigned int word(int i) const
    {
        const unsigned int low = i & 1 ? w1 : w0, high = i & 1 ? w3 : w2;
        return i & 2 ? high : low;
    }
};

__device__ __forceinline__ Words philox10(unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3,
                                          unsigned int k0, unsigned int k1)
{
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long product0 = 0xD2511F53ull * c0, product1 = 0xCD9E8D57ull * c2;
        c0 = (unsigned int)(product1 >> 32) ^ c1 ^ k0;
        c1 = (unsigned int)product1;
        c2 = (unsigned int)(product0 >> 32) ^ c3 ^ k1;
        c3 = (unsigned int)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Words{c0, c1, c2, c3};
}

__device__ __forceinline__ Words words_of(long long record, int block, unsigned int k0, unsigned int k1,
                                          unsigned int tweak)
{
    const unsigned long long number = (unsigned long long)record;
    return philox10((unsigned int)number, (unsigned int)(number >> 32), (unsigned int)block, tweak, k0, k1);
}

// Two words to a number in the open interval (0, 1): 52 random bits and a half.
__device__ __forceinline__ double open_unit(unsigned int high, unsigned int low)
{
    const unsigned long long bits = (unsigned long long)high << 20 | low >> 12;
    return ((double)bits + 0.5) * 2.220446049250313080847e-16;  // 2^-52
}

__device__ __forceinline__ double unit_of(long long record, int number, unsigned int k0, unsigned int k1,
                                          unsigned int tweak)
{
    const Words four = words_of(record, number / 2, k0, k1, tweak);
    return number & 1 ? open_unit(four.w2, four.w3) : open_unit(four.w0, four.w1);
}

// Counters (4, n) to words (4, n).
extern "C" __global__ void __launch_bounds__(256)
philox(const unsigned int* __restrict__ counters, long long n, unsigned int k0, unsigned int k1,
       unsigned int* __restrict__ out)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const Words four = philox10(counters[i], counters[n + i], counters[2 * n + i], counters[3 * n + i], k0, k1);
    out[i] = four.w0;
    out[n + i] = four.w1;
    out[2 * n + i] = four.w2;
    out[3 * n + i] = four.w3;
}

// (n, count) words.
extern "C" __global__ void __launch_bounds__(256)
words(const long long* __restrict__ records, long long n, int count, unsigned int k0, unsigned int k1,
      unsigned int tweak, unsigned int* __restrict__ out)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= n * count) return;
    const long long row = i / count;
    const int word = (int)(i - row * count);
    out[i] = words_of(records[row], word / 4, k0, k1, tweak).word(word & 3);
}

// (n,) keys of 64 bits, to be sorted for a permutation.
extern "C" __global__ void __launch_bounds__(256)
keys(const long long* __restrict__ records, long long n, unsigned int k0, unsigned int k1, unsigned int tweak,
     unsigned long long* __restrict__ out)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const Words four = words_of(records[i], 0, k0, k1, tweak);
    out[i] = (unsigned long long)four.w0 << 32 | four.w1;
}

// (n, count) uniform numbers.
extern "C" __global__ void __launch_bounds__(256)
uniform(const long long* __restrict__ records, long long n, int count, unsigned int k0, unsigned int k1,
        unsigned int tweak, double* __restrict__ out)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= n * count) return;
    const long long row = i / count;
    out[i] = unit_of(records[row], (int)(i - row * count), k0, k1, tweak);
}

// (n, count) standard normal numbers, by the inverse distribution function.
extern "C" __global__ void __launch_bounds__(256)
normal(const long long* __restrict__ records, long long n, int count, unsigned int k0, unsigned int k1,
       unsigned int tweak, double* __restrict__ out)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= n * count) return;
    const long long row = i / count;
    out[i] = normal_quantile(unit_of(records[row], (int)(i - row * count), k0, k1, tweak));
}
