// Convolutions in up to three dimensions, as products of matrices: the weight, and what its windows see, which is not
// copied but found by tables. All tensors lie row by row: images [n, groups * in, image...], outputs
// [n, groups * out, places...], weights [groups * out, in, kernel...]. Each function returns 1 where there is no memory.
#ifndef WINDOW
#define WINDOW
typedef struct {
    int64_t n, groups, in, out;
    int64_t image[3], kernel[3], places[3], stride[3], padding[3], dilation[3];
} Window;
enum { TOGETHER = 1024 };  // columns from which on a product goes well; small images have one together

// Where a group of some images is read: in the tensor, or in a copy with zeros around them.
typedef struct {
    int64_t images, channels, size[3], before[3], frame[3];
    int is_copy;
} Frames;

// Three matrices that a product is made of, and the memory of their tables.
typedef struct { Table weights, seen, outputs; int64_t deep, wide, *memory; } Tables;

static inline int64_t count(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Appends where the elements of some grids are, whose indices have equal steps in an image of some size.
static inline int64_t *grids(int64_t *to, int64_t n, int64_t apart, const int64_t *sizes, const int64_t *by,
                             const int64_t *image) {
    for (int64_t each = 0; each < n; each++)
        for (int64_t a = 0; a < sizes[0]; a++)
            for (int64_t b = 0; b < sizes[1]; b++)
                for (int64_t c = 0; c < sizes[2]; c++)
                    *to++ = each * apart + ((a * by[0]) * image[1] + b * by[1]) * image[2] + c * by[2];
    return to;
}

static inline Frames frames_of(const Window *w, int64_t channels, const int64_t *size, const int64_t *before,
                               const int64_t *frame) {
    Frames f = {larger(1, smaller(w->n, TOGETHER / larger(count(w->places), 1))), channels};
    for (int d = 0; d < 3; d++) {
        f.size[d] = size[d], f.before[d] = before[d], f.frame[d] = frame[d];
        f.is_copy |= before[d] > 0 || frame[d] > size[d];
    }
    if (!f.is_copy) memcpy(f.frame, size, sizeof f.frame);
    return f;
}

static inline int64_t apart(const Frames *f, int64_t groups) {
    return (f->is_copy ? 1 : groups) * f->channels * count(f->frame);
}

// Columns have equal steps in runs.
static inline int tables_for(Tables *t, int64_t out, int64_t deep, int64_t wide, int64_t run) {
    t->memory = malloc((2 * (out + deep + wide) + 1) * sizeof(int64_t));
    t->deep = deep, t->wide = wide;
    t->weights = (Table){t->memory, t->memory + out, larger(out, 1), 1};
    t->seen = (Table){t->weights.columns + deep, t->weights.columns + 2 * deep, 1, larger(run, 1)};
    t->outputs = (Table){t->seen.columns + wide, t->seen.columns + wide + out, larger(out, 1), larger(run, 1)};
    return !t->memory;
}

// A convolution: weights [out, in * kernel], what is seen [in * kernel, places], outputs [out, places].
static inline int windows(const Window *w, Frames *f, Tables *t) {
    static const int64_t ones[3] = {1, 1, 1};
    int64_t frame[3];
    for (int d = 0; d < 3; d++) frame[d] = (w->places[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
    *f = frames_of(w, w->in, w->image, w->padding, frame);
    if (tables_for(t, w->out, w->in * count(w->kernel), f->images * count(w->places), w->places[2])) return 1;
    equal_steps(t->weights.rows, w->out, t->deep);
    equal_steps(t->weights.columns, t->deep, 1);
    grids(t->seen.rows, w->in, count(f->frame), w->kernel, w->dilation, f->frame);
    grids(t->seen.columns, f->images, apart(f, w->groups), w->places, w->stride, f->frame);
    equal_steps(t->outputs.rows, w->out, count(w->places));
    grids(t->outputs.columns, f->images, w->groups * w->out * count(w->places), w->places, ones, w->places);
    return 0;
}

// The elements of the kernel that reach pixels which are a stride apart, in one dimension, and from where.
static inline int64_t reaching(const Window *w, int d, int64_t phase, int64_t *kernel, int64_t *shift) {
    int64_t n = 0;
    for (int64_t x = 0; x < w->kernel[d]; x++) {
        const int64_t far = phase + w->padding[d] - x * w->dilation[d];
        if (far % w->stride[d] == 0) kernel[n] = x, shift[n++] = far / w->stride[d];
    }
    return n;
}

static inline int64_t pixels(const Window *w, int d, int64_t phase) {
    return larger(0, (w->image[d] - phase + w->stride[d] - 1) / w->stride[d]);
}

// The frames of outputs, so that all that reaches a pixel is inside.
static inline Frames outputs_of(const Window *w) {
    int64_t before[3] = {0}, frame[3] = {0};
    for (int d = 0; d < 3; d++) {
        for (int64_t x = 0; x < w->kernel[d]; x++) {
            const int64_t far = w->padding[d] - x * w->dilation[d];
            before[d] = larger(before[d], -floor_divide(far, w->stride[d]));
            frame[d] = larger(frame[d], floor_divide(w->image[d] - 1 + far, w->stride[d]) + 1);
        }
        frame[d] = larger(frame[d], 1) + before[d];
    }
    return frames_of(w, w->out, w->places, before, frame);
}

// The same convolution from the outputs to the pixels of one phase: what is seen there are outputs.
static inline int phase_of(const Window *w, const Frames *f, const int64_t *phase, Tables *t) {
    int64_t most = larger(w->kernel[0], larger(w->kernel[1], w->kernel[2])), n[3], some[3], ones[3] = {1, 1, 1};
    int64_t *lists = malloc((6 * most + 1) * sizeof(int64_t)), *kernel[3], *shift[3];
    if (!lists) return 1;
    for (int d = 0; d < 3; d++) {
        kernel[d] = lists + 2 * d * most, shift[d] = kernel[d] + most;
        n[d] = reaching(w, d, phase[d], kernel[d], shift[d]);
        some[d] = pixels(w, d, phase[d]);
    }
    const int status = tables_for(t, w->in, w->out * count(n), f->images * count(some), some[2]);
    if (!status) {
        int64_t *row = t->seen.rows, *weight = t->weights.columns;
        for (int64_t o = 0; o < w->out; o++)
            for (int64_t a = 0; a < n[0]; a++)
                for (int64_t b = 0; b < n[1]; b++)
                    for (int64_t c = 0; c < n[2]; c++) {
                        const int64_t i = shift[0][a] + f->before[0], j = shift[1][b] + f->before[1];
                        *row++ = ((o * f->frame[0] + i) * f->frame[1] + j) * f->frame[2] + shift[2][c] + f->before[2];
                        *weight++ = (o * w->in * w->kernel[0] + kernel[0][a]) * w->kernel[1] * w->kernel[2] +
                                    kernel[1][b] * w->kernel[2] + kernel[2][c];
                    }
        equal_steps(t->weights.rows, w->in, count(w->kernel));
        grids(t->seen.columns, f->images, apart(f, w->groups), some, ones, f->frame);
        const int64_t first = (phase[0] * w->image[1] + phase[1]) * w->image[2] + phase[2];
        for (int64_t i = 0; i < w->in; i++) (t->outputs.rows)[i] = first + i * count(w->image);
        grids(t->outputs.columns, f->images, w->groups * w->in * count(w->image), some, w->stride, w->image);
    }
    free(lists);
    return status;
}
#endif

// The address of a group of some images; a copy is to be freed. 0 where there is no memory.
static const TYPE *framed_TYPE(const Frames *f, const TYPE *from, int64_t images, int64_t groups, TYPE **copy) {
    *copy = 0;
    if (!f->is_copy) return from;
    const int64_t *frame = f->frame, *before = f->before, *size = f->size;
    TYPE *to = *copy = calloc(images * f->channels * count(frame) + 1, sizeof(TYPE));
    const int64_t width = larger(0, smaller(size[2], frame[2] - before[2]));
    for (int64_t each = 0; to && each < images * f->channels; each++) {
        const TYPE *channel = from + (each / f->channels * groups * f->channels + each % f->channels) * count(size);
        for (int64_t a = 0; a < smaller(size[0], frame[0] - before[0]); a++)
            for (int64_t b = 0; b < smaller(size[1], frame[1] - before[1]); b++)
                memcpy(to + ((each * frame[0] + a + before[0]) * frame[1] + b + before[1]) * frame[2] + before[2],
                       channel + (a * size[1] + b) * size[2], width * sizeof(TYPE));
    }
    return to;
}

// Products of the weights with what is seen of each group of all images; to has as many images of other channels.
static int windowed_TYPE(const Window *w, const Frames *f, const Tables *t, const TYPE *weight, const TYPE *from,
                         TYPE *to, int64_t channels, int64_t area) {
    const int64_t parts = (w->n + f->images - 1) / f->images, wide = t->wide / f->images;
    const int64_t work = w->n * w->groups * channels * wide * t->deep;
    int status = 0;
    #pragma omp parallel for collapse(2) reduction(|:status) \
        if (parts * w->groups >= omp_get_max_threads() && work >= WORK)
    for (int64_t part = 0; part < parts; part++)
        for (int64_t group = 0; group < w->groups; group++) {
            const int64_t first = part * f->images, images = smaller(f->images, w->n - first);
            const int64_t place = first * w->groups + group;
            TYPE *copy;
            const TYPE *seen = framed_TYPE(f, from + place * f->channels * count(f->size), images, w->groups, &copy);
            status |= !seen || product_TYPE(channels, images * wide, t->deep,
                                            weight + group * w->out * w->in * count(w->kernel), t->weights, seen,
                                            t->seen, to + place * channels * area, t->outputs, 0);
            free(copy);
        }
    return status;
}

static int convolve_TYPE(const Window *w, const TYPE *image, const TYPE *weight, TYPE *output) {
    Frames frames;
    Tables tables;
    if (windows(w, &frames, &tables)) return 1;
    const int status = windowed_TYPE(w, &frames, &tables, weight, image, output, w->out, count(w->places));
    free(tables.memory);
    return status;
}

// The gradient of the image, and a transposed convolution: pixels that are a stride apart are reached alike.
static int spread_TYPE(const Window *w, const TYPE *output, const TYPE *weight, TYPE *image) {
    const Frames frames = outputs_of(w);
    int status = 0;
    for (int64_t each = 0; each < count(w->stride) && !status; each++) {
        const int64_t *s = w->stride, phase[3] = {each / (s[1] * s[2]), each / s[2] % s[1], each % s[2]};
        Tables tables;
        if (phase_of(w, &frames, phase, &tables)) return 1;
        status = windowed_TYPE(w, &frames, &tables, weight, output, image, w->in, count(w->image));
        free(tables.memory);
    }
    return status;
}

// The gradient of the weight.
static int weigh_TYPE(const Window *w, const TYPE *output, const TYPE *image, TYPE *weight) {
    Frames f;
    Tables t;
    if (windows(w, &f, &t)) return 1;
    const Table seen = {t.seen.columns, t.seen.rows, t.seen.column_run, t.seen.row_run};
    const int64_t area = w->out * t.deep, wide = count(w->places);
    const int64_t work = w->n * w->groups * area * wide;
    int status = 0;
    if (!w->n) memset(weight, 0, w->groups * area * sizeof(TYPE));
    #pragma omp parallel for reduction(|:status) if (w->groups >= omp_get_max_threads() && work >= WORK)
    for (int64_t group = 0; group < w->groups; group++)
        for (int64_t first = 0; first < w->n; first += f.images) {
            const int64_t images = smaller(f.images, w->n - first), place = first * w->groups + group;
            TYPE *copy;
            const TYPE *from = framed_TYPE(&f, image + place * w->in * count(w->image), images, w->groups, &copy);
            status |= !from || product_TYPE(w->out, t.deep, images * wide, output + place * w->out * wide, t.outputs,
                                            from, seen, weight + group * area, t.weights, first > 0);
            free(copy);
        }
    free(t.memory);
    return status;
}
