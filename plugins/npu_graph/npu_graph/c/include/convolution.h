// Convolutions in up to three dimensions, by matrix products of the weight and the columns that its windows see.
// All tensors lie row by row: images [n, groups * in, image...], outputs [n, groups * out, places...], weights
// [groups * out, in, kernel...]. Each function returns 1 where there is no memory.
#ifndef WINDOW
#define WINDOW
typedef struct {
    int64_t n, groups, in, out;
    int64_t image[3], kernel[3], places[3], stride[3], padding[3], dilation[3];
} Window;
static inline int64_t count(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }
#endif

// Copies what windows see to columns [in * kernel, places], or adds columns up to the image.
static void columns_TYPE(const Window *w, TYPE *image, TYPE *columns, int adds) {
    const int64_t *k = w->kernel, *o = w->places, *size = w->image;
    #pragma omp parallel for if (w->in * count(k) * count(o) >= 32768)
    for (int64_t channel = 0; channel < w->in; channel++)
        for (int64_t x = 0; x < k[0]; x++)
        for (int64_t y = 0; y < k[1]; y++)
        for (int64_t z = 0; z < k[2]; z++) {
            TYPE *column = columns + (((channel * k[0] + x) * k[1] + y) * k[2] + z) * count(o);
            for (int64_t a = 0; a < o[0]; a++)
            for (int64_t b = 0; b < o[1]; b++) {
                const int64_t i = a * w->stride[0] - w->padding[0] + x * w->dilation[0];
                const int64_t j = b * w->stride[1] - w->padding[1] + y * w->dilation[1];
                const int inside = i >= 0 && i < size[0] && j >= 0 && j < size[1];
                TYPE *row = inside ? image + ((channel * size[0] + i) * size[1] + j) * size[2] : 0;
                TYPE *to = column + (a * o[1] + b) * o[2];
                const int64_t first = z * w->dilation[2] - w->padding[2], step = w->stride[2];
                for (int64_t c = 0; c < o[2]; c++) {
                    const int64_t l = first + c * step;
                    const int seen = inside && l >= 0 && l < size[2];
                    if (!adds) to[c] = seen ? row[l] : 0;
                    else if (seen) row[l] += to[c];
                }
            }
        }
}

static int convolve_TYPE(const Window *w, const TYPE *image, const TYPE *weight, TYPE *output) {
    const int64_t deep = w->in * count(w->kernel), wide = count(w->places);
    TYPE *columns = malloc((deep * wide + 1) * sizeof(TYPE));
    int status = !columns;
    for (int64_t each = 0; !status && each < w->n * w->groups; each++) {
        columns_TYPE(w, (TYPE *)image + each * w->in * count(w->image), columns, 0);
        status = matrix_product_TYPE(w->out, wide, deep, weight + each % w->groups * w->out * deep, columns, deep, 1,
                                     wide, 1, output + each * w->out * wide, wide);
    }
    free(columns);
    return status;
}

// The gradient of the image, and a transposed convolution.
static int spread_TYPE(const Window *w, const TYPE *output, const TYPE *weight, TYPE *image) {
    const int64_t deep = w->in * count(w->kernel), wide = count(w->places);
    TYPE *columns = malloc((deep * wide + 1) * sizeof(TYPE));
    int status = !columns;
    memset(image, 0, w->n * w->groups * w->in * count(w->image) * sizeof(TYPE));
    for (int64_t each = 0; !status && each < w->n * w->groups; each++) {
        status = matrix_product_TYPE(deep, wide, w->out, weight + each % w->groups * w->out * deep,
                                     output + each * w->out * wide, 1, deep, wide, 1, columns, wide);
        if (!status) columns_TYPE(w, image + each * w->in * count(w->image), columns, 1);
    }
    free(columns);
    return status;
}

// The gradient of the weight.
static int weigh_TYPE(const Window *w, const TYPE *output, const TYPE *image, TYPE *weight) {
    const int64_t deep = w->in * count(w->kernel), wide = count(w->places), area = w->out * deep;
    TYPE *columns = malloc((deep * wide + area + 1) * sizeof(TYPE)), *sums = columns + deep * wide;
    int status = !columns;
    memset(weight, 0, w->groups * area * sizeof(TYPE));
    for (int64_t each = 0; !status && each < w->n * w->groups; each++) {
        TYPE *to = weight + each % w->groups * area;
        columns_TYPE(w, (TYPE *)image + each * w->in * count(w->image), columns, 0);
        status = matrix_product_TYPE(w->out, deep, wide, output + each * w->out * wide, columns, wide, 1, 1, wide,
                                     sums, deep);
        for (int64_t i = 0; !status && i < area; i++) to[i] += sums[i];
    }
    free(columns);
    return status;
}
