// Where groups of rows lie: their mean places, in whole numbers and along axes that are rotated by reflections.
// One thread per group.  Sums of whole numbers are exact; what is rounded is rounded one operation at a time, in the order
// of the host's functions.

// places  : (n, e) whole numbers of the rows;  members : (groups, width) rows of each group, of which sizes (groups) count
// finer   : a power of two, by which means are multiplied before they are rounded to whole numbers
// mirrors : (reflections, e) unit vectors
// centres : (e, groups) scratch
// whole, axes : (groups, e) means as whole numbers, and along the mirrored axes
extern "C" __global__ void __launch_bounds__(128, 1)
locate(const int* __restrict__ places, int e, const long long* __restrict__ members, const long long* __restrict__ sizes,
       long long groups, int width, double finer, const double* __restrict__ mirrors, int reflections,
       double* __restrict__ centres, int* __restrict__ whole, float* __restrict__ axes) {
    const long long group = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    const long long* held = members + group * width;
    const int size = (int)sizes[group];
    for (int j = 0; j < e; ++j) {
        long long total = 0;
        for (int slot = 0; slot < size; ++slot) total += places[held[slot] * e + j];
        const double centre = (double)total / (double)size;
        centres[j * groups + group] = centre;
        whole[group * e + j] = (int)rint(__dmul_rn(centre, finer));
    }
    for (int m = 0; m < reflections; ++m) {
        const double* mirror = mirrors + (long long)m * e;
        double along = 0.0;
        for (int j = 0; j < e; ++j) along = __dadd_rn(along, __dmul_rn(centres[j * groups + group], mirror[j]));
        for (int j = 0; j < e; ++j) {
            double& centre = centres[j * groups + group];
            centre = __dadd_rn(centre, -__dmul_rn(along, __dmul_rn(2.0, mirror[j])));
        }
    }
    for (int j = 0; j < e; ++j) axes[group * e + j] = (float)centres[j * groups + group];
}
