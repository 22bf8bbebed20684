// The normal quantile function (Wichura 1988, AS 241, PPND16), the same operations as in
// gpuanon/arrays/normal_quantile.py: every sum, product, quotient and root is rounded by itself, and the logarithm is a
// series of our own, so that host and device give the same bits.

#ifdef __CUDA_ARCH__  // else the compiler fuses a product with the following sum
__device__ __forceinline__ double rounded_product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double rounded_sum(double a, double b) { return __dadd_rn(a, b); }
#else
__device__ __forceinline__ double rounded_product(double a, double b) { return a * b; }
__device__ __forceinline__ double rounded_sum(double a, double b) { return a + b; }
#endif

// Horner's scheme, the highest power first.
template <int TERMS>
__device__ __forceinline__ double polynomial(double x, const double (&coefficients)[TERMS])
{
    double value = coefficients[0];
#pragma unroll
    for (int i = 1; i < TERMS; ++i) value = rounded_sum(rounded_product(value, x), coefficients[i]);
    return value;
}

// -log p: p = m 2^k with sqrt 1/2 <= m < sqrt 2, and log m = 2 artanh((m - 1) / (m + 1)).
__device__ __forceinline__ double minus_log(double p)
{
    const double artanh[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    const long long bits = __double_as_longlong(p), root_of_half = 0x3fe6a09e667f3bcdll;
    const long long k = (bits - root_of_half) >> 52;
    const double m = __longlong_as_double(bits - k * (1ll << 52));
    const double s = rounded_sum(m, -1.0) / rounded_sum(m, 1.0);
    const double series = rounded_product(rounded_product(2.0, s), polynomial(rounded_product(s, s), artanh));
    return rounded_sum(rounded_product((double)k, -0.6931471805599453), -series);
}

// x > 0 with 1 - Phi(x) = p, for p < 0.075.
__device__ __forceinline__ double upper_tail(double p)
{
    const double near_over[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                1.27045825245236838258,    3.64784832476320460504,    5.76949722146069140550,
                                4.63033784615654529590,    1.42343711074968357734};
    const double near_under[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
                                 1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
                                 2.05319162663775882187,    1.0};
    const double far_over[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                               2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
                               5.46378491116411436990,    6.65790464350110377720};
    const double far_under[] = {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
                                7.86869131145613259100e-4,  1.48753612908506148525e-2, 1.36929880922735805310e-1,
                                5.99832206555887937690e-1,  1.0};
    const double root = sqrt(minus_log(p));
    if (root > 5.0) {
        const double r = rounded_sum(root, -5.0);
        return polynomial(r, far_over) / polynomial(r, far_under);
    }
    const double r = rounded_sum(root, -1.6);
    return polynomial(r, near_over) / polynomial(r, near_under);
}

// x with Phi(x) = p, for 0 < p < 1.
__device__ __forceinline__ double normal_quantile(double p)
{
    const double over[] = {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                           4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                           1.3314166789178437745e2, 3.3871328727963666080};
    const double under[] = {5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
                            2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
                            4.2313330701600911252e1, 1.0};
    const double q = rounded_sum(p, -0.5);
    if (fabs(q) > 0.425) {
        const double x = upper_tail(q < 0.0 ? p : rounded_sum(1.0, -p));
        return q < 0.0 ? -x : x;
    }
    const double r = rounded_sum(0.180625, -rounded_product(q, q));
    return rounded_product(polynomial(r, over) / polynomial(r, under), q);
}
