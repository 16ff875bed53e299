// Arithmetic of whole numbers as torch has it: quotients rounded down, remainders with the sign of the divisor.
static inline int64_t floor_divide(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
static inline int64_t remainder_of(int64_t a, int64_t b) { return a - floor_divide(a, b) * b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_in_parallel(void) { return 0; }
static inline int omp_get_max_threads(void) { return 1; }
#endif
// How many of neighbours a thread takes at a time: a multiple of the least, so that vectors begin at the same elements
// whatever the number of threads, and few enough to leave each thread some, if there are others around that many times.
static inline int64_t tile_of(int64_t neighbours, int64_t others, int64_t least, int64_t most) {
    const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    return larger(least, smaller(most, neighbours * others / threads / least * least));
}
// The same of floating-point numbers: what fmod gives has the sign of the dividend.
static inline double remainder_of_floats(double a, double b) {
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline float remainder_of_floatsf(float a, float b) {
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline double floor_divide_floats(double a, double b) {
    if (b == 0) return a / b;
    const double r = fmod(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)), whole = floor(q);
    return q == 0 ? copysign(0, a / b) : whole + (q - whole > 0.5);
}
static inline float floor_divide_floatsf(float a, float b) {
    if (b == 0) return a / b;
    const float r = fmodf(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)), whole = floorf(q);
    return q == 0 ? copysignf(0, a / b) : whole + (q - whole > 0.5f);
}

// Functions of <math.h> that the GNU C library (2.22, 2.35) has for vectors, too, within 4 units in the last place;
// its headers say so under -ffast-math only, which would be wrong about infinities and NaN.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define VECTOR_1(name) _Pragma("omp declare simd notinbranch") double name(double); \
    _Pragma("omp declare simd notinbranch") float name##f(float);
#define VECTOR_2(name) _Pragma("omp declare simd notinbranch") double name(double, double); \
    _Pragma("omp declare simd notinbranch") float name##f(float, float);
#if __GLIBC_PREREQ(2, 22)
VECTOR_1(exp) VECTOR_1(log) VECTOR_1(sin) VECTOR_1(cos) VECTOR_2(pow)
#endif
#if __GLIBC_PREREQ(2, 35)
VECTOR_1(acos) VECTOR_1(acosh) VECTOR_1(asin) VECTOR_1(asinh) VECTOR_1(atan) VECTOR_1(atanh)
VECTOR_1(cosh) VECTOR_1(erf) VECTOR_1(exp2) VECTOR_1(expm1) VECTOR_1(log10) VECTOR_1(log1p)
VECTOR_1(log2) VECTOR_1(sinh) VECTOR_1(tan) VECTOR_1(tanh) VECTOR_2(atan2)
#endif
#endif
