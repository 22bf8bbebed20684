// Integer instructions, one result a column, to be compared with Python's integers.
typedef unsigned long long u64;
typedef long long s64;

extern "C" __global__ void words(const unsigned* __restrict__ a, const unsigned* __restrict__ b, unsigned* __restrict__ out,
                                 int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned x = a[i], y = b[i];
    unsigned* row = out + (s64)i * 20;
    row[0] = x + y;
    row[1] = x * y;
    row[2] = __umulhi(x, y);
    row[3] = (unsigned)__mulhi((int)x, (int)y);
    row[4] = __popc(x);
    row[5] = __clz(x);
    row[6] = __brev(x);
    row[7] = __ffs(x);
    row[8] = __funnelshift_l(x, y, y);
    row[9] = __funnelshift_r(x, y, y);
    row[10] = __byte_perm(x, y, 0x6240);
    row[11] = y ? x / y : 0;
    row[12] = y ? x % y : 0;
    row[13] = (int)y ? (unsigned)((int)x / (int)y) : 0;
    row[14] = (int)y ? (unsigned)((int)x % (int)y) : 0;
    row[15] = x << (y & 31);
    row[16] = (unsigned)((int)x >> (y & 31));
    row[17] = (x & y) ^ (x | ~y);
    row[18] = (unsigned)abs((int)x) + (unsigned)min((int)x, (int)y) - max(x, y);
    row[19] = (unsigned)(unsigned char)x + (unsigned)(int)(signed char)y + (unsigned)(unsigned short)(x * 3);
}

extern "C" __global__ void longs(const u64* __restrict__ a, const u64* __restrict__ b, u64* __restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const u64 x = a[i], y = b[i];
    u64* row = out + (s64)i * 12;
    row[0] = x + y;
    row[1] = x * y;
    row[2] = __umul64hi(x, y);
    row[3] = (u64)__mul64hi((s64)x, (s64)y);
    row[4] = __popcll(x);
    row[5] = __clzll(x);
    row[6] = __brevll(x);
    row[7] = y ? x / y : 0;
    row[8] = y ? x % y : 0;
    row[9] = (s64)y ? (u64)((s64)x / (s64)y) : 0;
    row[10] = (u64)((s64)x >> (y & 63));
    row[11] = (u64)(unsigned)x * (unsigned)y + (u64)((s64)(int)x * (int)y);
}

// Conversions between floating point and integers, out of range included.
extern "C" __global__ void conversions(const double* __restrict__ a, s64* __restrict__ out, float* __restrict__ singles, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double x = a[i];
    s64* row = out + (s64)i * 8;
    row[0] = __double2int_rz(x);
    row[1] = __double2int_rn(x);
    row[2] = __double2int_rd(x);
    row[3] = __double2int_ru(x);
    row[4] = __double2uint_rz(x);
    row[5] = __double2ll_rz(x);
    row[6] = (s64)__double2ull_rz(x);
    row[7] = __double_as_longlong(x);
    singles[i * 5LL] = __double2float_rn(x);
    singles[i * 5LL + 1] = __double2float_rz(x);
    singles[i * 5LL + 2] = __double2float_rd(x);
    singles[i * 5LL + 3] = (float)row[5];
    singles[i * 5LL + 4] = (float)(u64)row[6];
}
