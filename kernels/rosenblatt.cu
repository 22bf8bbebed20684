// Rosenblatt's transformation of samples of Gaussian mixtures, one mixture per part:
//     u_j = F_j(x_j | x_<j) = sum_l p(l | x_<j) Phi(z_lj),   p(l | x_<=j) ~ p(l | x_<j) W_l,jj exp(-z_lj^2/2),
// where z_l = W_l (x - mean_l), W_l the inverse of the Cholesky factor of component l's covariance.
// One thread per sample, one thread block per tile of samples of one part.  Each component is visited once: a column keeps
// the largest log-weight so far, the sum of the weights relative to it, and the weighted sum of Phi.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#ifndef DYN_SHARED  // a host build defines its own
#define DYN_SHARED(type, name)                                       \
    extern __shared__ __align__(16) unsigned char dynamic_shared_[]; \
    type* name = reinterpret_cast<type*>(dynamic_shared_)
#endif

// The mixtures: means (c, d), whitening (c, d, d) row by row, log_diagonal (c, d) log W_jj, log_weights (c).
struct Mixture {
    const real *means, *whitening, *log_diagonal, *log_weights;
};

// State of a thread per column, with a stride of `apart` words.
struct State {
    double *centred, *peak, *total, *below;  // x - mean; largest log-weight; sum w / e^peak; sum w Phi / e^peak
    long long apart;
};

// The part that owns a tile: the last one whose first tile is not after it.
__device__ __forceinline__ long long part_of(long long tile, const long long* __restrict__ tiles, long long parts) {
    long long low = 0, high = parts;
    while (high - low > 1) {
        const long long middle = low + (high - low) / 2;
        if (tiles[middle] <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The normal distribution function.  Rounding z to float32 would give the tails a relative error of z^2 * 6e-8; the first
// term of the Taylor series corrects it.
__device__ __forceinline__ double normal_cdf(double z, double) { return normcdf(z); }
__device__ __forceinline__ float normal_cdf(double z, float) {
    const float near = (float)z, rest = (float)(z - near);
    return normcdff(near) + rest * 0.39894228f * expf(-0.5f * near * near);
}
__device__ __forceinline__ double power(double log_weight, double) { return exp(log_weight); }
__device__ __forceinline__ float power(double log_weight, float) { return expf((float)log_weight); }

// The term of one component for one sample.  Residuals and log-weights are float64 for any storage type: the exponentials
// of the latter need the precision, and the cost is small beside Phi.
__device__ __forceinline__ void visit(const real* x, long long n, int d, const Mixture& mixture, long long l,
                                      const State& state) {
    const real* mean = mixture.means + l * d;
    const real* row = mixture.whitening + l * d * d;
    double log_weight = (double)mixture.log_weights[l];
    if (log_weight == -1.0 / 0.0) return;  // weight 0
    for (int j = 0; j < d; ++j, row += d) {
        const long long at = j * state.apart;
        const double last = (double)x[j * n] - (double)mean[j];
        state.centred[at] = last;
        double z = (double)row[j] * last;
        for (int i = 0; i < j; ++i) z += (double)row[i] * state.centred[i * state.apart];
        const double above = log_weight - state.peak[at];
        const double lesser = (double)power(above > 0.0 ? -above : above, real(0));
        const double old = above > 0.0 ? lesser : 1.0, now = above > 0.0 ? 1.0 : lesser;
        if (above > 0.0) state.peak[at] = log_weight;
        state.total[at] = state.total[at] * old + now;
        state.below[at] = state.below[at] * old + now * (double)normal_cdf(z, real(0));
        log_weight += (double)mixture.log_diagonal[l * d + j] - 0.5 * z * z;
    }
}

__device__ __forceinline__ void transform(const real* x, long long n, int d, const Mixture& mixture, long long first,
                                          long long end, double* fields, long long apart, bool fresh, bool done,
                                          real* u) {
    const long long field = apart * d;
    const State state = {fields, fields + field, fields + 2 * field, fields + 3 * field, apart};
    for (int j = 0; fresh && j < d; ++j) {
        state.peak[j * apart] = -1.0 / 0.0;
        state.total[j * apart] = 0.0;
        state.below[j * apart] = 0.0;
    }
    for (long long l = first; l < end; ++l) visit(x, n, d, mixture, l, state);
    for (int j = 0; done && j < d; ++j) {
        const double share = state.below[j * apart] / state.total[j * apart];
        u[j * n] = (real)(share < 1.0 ? share : 1.0);  // rounding of the sums may exceed 1
    }
}

// x, u       : (d, n) samples and their transforms, sorted by part
// rows       : (parts + 1) offsets of the parts' samples;  components : (parts + 1) of their components
// tiles      : (parts + 1) offsets of the parts' tiles of blockDim.x samples
// scratch    : (4, d, n) if shared memory is too small for 4 d blockDim.x numbers, or if the components are visited by
//              several launches, which carry the state on; else null
// from, most : the launch visits at most `most` components of each part, from the number `from` on
// done       : whether it is the last launch, which writes u
extern "C" __global__ void __launch_bounds__(128, 1)
rosenblatt(const real* __restrict__ x, const long long* __restrict__ rows, const long long* __restrict__ components,
           const long long* __restrict__ tiles, long long parts, long long n, int d, const real* __restrict__ means,
           const real* __restrict__ whitening, const real* __restrict__ log_diagonal,
           const real* __restrict__ log_weights, double* scratch, long long from, long long most, int done,
           real* __restrict__ u) {
    DYN_SHARED(double, shared);
    const long long tile = blockIdx.x;
    if (tile >= tiles[parts]) return;  // the grid has an upper bound of the number of tiles
    const long long part = part_of(tile, tiles, parts);
    const long long sample = rows[part] + (tile - tiles[part]) * blockDim.x + threadIdx.x;
    if (sample >= rows[part + 1]) return;  // no barrier follows: a thread uses its own state only
    const Mixture mixture = {means, whitening, log_diagonal, log_weights};
    const long long first = components[part] + from, all = components[part + 1];
    const long long end = all - first < most ? all : first + most;  // not above `first` if all were visited before
    if (scratch)
        transform(x + sample, n, d, mixture, first, end, scratch + sample, n, from == 0, done, u + sample);
    else
        transform(x + sample, n, d, mixture, first, end, shared + threadIdx.x, blockDim.x, true, true, u + sample);
}
