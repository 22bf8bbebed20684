// One kernel a mathematical function: what the compiler makes of each is interpreted and compared with SciPy.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#define OF_ONE(name, expression)                                                                \
    extern "C" __global__ void name(const real* __restrict__ x, real* __restrict__ y, int n) {  \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                                    \
        if (i < n) {                                                                            \
            const real v = x[i];                                                                \
            y[i] = expression;                                                                  \
        }                                                                                       \
    }
#define OF_TWO(name, expression)                                                                                    \
    extern "C" __global__ void name(const real* __restrict__ x, const real* __restrict__ w, real* __restrict__ y,   \
                                    int n) {                                                                        \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                                                        \
        if (i < n) {                                                                                                \
            const real v = x[i], u = w[i];                                                                          \
            y[i] = expression;                                                                                      \
        }                                                                                                           \
    }

OF_ONE(exponential, exp(v))
OF_ONE(exponential_minus_1, expm1(v))
OF_ONE(exponential_2, exp2(v))
OF_ONE(logarithm, log(v))
OF_ONE(logarithm_1_plus, log1p(v))
OF_ONE(square_root, sqrt(v))
OF_ONE(reciprocal_root, rsqrt(v))
OF_ONE(error_function, erf(v))
OF_ONE(complementary_error_function, erfc(v))
OF_ONE(scaled_complementary_error_function, erfcx(v))
OF_ONE(normal_cdf, normcdf(v))
OF_ONE(inverse_normal_cdf, normcdfinv(v))
OF_ONE(hyperbolic_tangent, tanh(v))
OF_ONE(sine, sin(v))
OF_ONE(cosine, cos(v))
OF_ONE(log_gamma, lgamma(v))
OF_ONE(round_down, floor(v))
OF_ONE(round_up, ceil(v))
OF_ONE(round_to_even, rint(v))
OF_ONE(towards_zero, trunc(v))
OF_ONE(reciprocal, real(1) / v)
OF_TWO(quotient, v / u)
OF_TWO(power, pow(v, u))
OF_TWO(remainder_of, fmod(v, u))
OF_TWO(with_sign, copysign(v, u))
OF_TWO(larger, fmax(v, u))
OF_TWO(smaller, fmin(v, u))
OF_TWO(length, hypot(v, u))
OF_TWO(fused, fma(v, u, real(1) / real(3)))
