// Arithmetic of whole numbers as torch has it: quotients rounded down, remainders with the sign of the divisor.
static inline int64_t floor_divide(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
static inline int64_t remainder_of(int64_t a, int64_t b) { return a - floor_divide(a, b) * b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
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
