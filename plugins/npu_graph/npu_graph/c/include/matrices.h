// Matrix products. Where the elements of a matrix are, tables say: [i, j] is at rows[i] + columns[j]. That is a matrix
// with any strides, and all that the windows of a convolution see, too.
// Both factors are packed into panels that stay in the caches, and a tile of the result stays in registers.
#ifndef MATRICES
#define MATRICES
#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_in_parallel(void) { return 0; }
static inline int omp_get_max_threads(void) { return 1; }
#endif
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 12 };
#elif defined(__AVX__)
enum { VECTOR = 32, TILE_ROWS = 6 };
#elif defined(__aarch64__)
enum { VECTOR = 16, TILE_ROWS = 8 };
#else
enum { VECTOR = 16, TILE_ROWS = 4 };
#endif
enum { DEPTH = 256, WIDTH = 512, STRIPS = 8, THIN = 4, STRETCH = 256 };
typedef struct { const int64_t *rows, *columns; } Table;
static inline void equal_steps(int64_t *table, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; i++) table[i] = i * step;
}
// How many entries of a table follow each other by the same step, from one on.
static inline int64_t stretch(const int64_t *table, int64_t count, int64_t *step) {
    int64_t n = 1;
    *step = count > 1 ? table[1] - table[0] : 1;
    while (n < count && n < STRETCH && table[n] - table[n - 1] == *step) n++;
    return n;
}
#endif

enum { LANES_TYPE = VECTOR / sizeof(TYPE), COLUMNS_TYPE = 2 * LANES_TYPE };
typedef TYPE vector_TYPE __attribute__((vector_size(VECTOR), aligned(sizeof(TYPE)), may_alias));

static inline void tile_TYPE(int64_t depth, const TYPE *restrict a, const TYPE *restrict b, TYPE *restrict sums) {
    vector_TYPE acc[TILE_ROWS][2] = {{{0}}};
    for (int64_t p = 0; p < depth; p++, a += TILE_ROWS, b += COLUMNS_TYPE) {
        const vector_TYPE left = *(const vector_TYPE *)b, right = *(const vector_TYPE *)(b + LANES_TYPE);
        #pragma GCC unroll 12
        for (int i = 0; i < TILE_ROWS; i++) {
            const vector_TYPE x = a[i] - (vector_TYPE){0};
            acc[i][0] += x * left;
            acc[i][1] += x * right;
        }
    }
    #pragma GCC unroll 12
    for (int i = 0; i < TILE_ROWS; i++) {
        *(vector_TYPE *)(sums + i * COLUMNS_TYPE) = acc[i][0];
        *(vector_TYPE *)(sums + i * COLUMNS_TYPE + LANES_TYPE) = acc[i][1];
    }
}

// A panel: for each of depth entries of outer, width of the count entries of inner, then zeros.
static inline void pack_TYPE(const TYPE *from, const int64_t *outer, int64_t depth, const int64_t *inner, int64_t count,
                             int width, TYPE *restrict to) {
    if (count == width && inner[count - 1] - inner[0] == count - 1) {
        for (int64_t p = 0; p < depth; p++)
            memcpy(to + p * width, from + outer[p] + inner[0], width * sizeof(TYPE));
        return;
    }
    if (count < width) memset(to, 0, depth * width * sizeof(TYPE));
    for (int64_t j = 0, step; j < count;) {
        const int64_t n = stretch(inner + j, count - j, &step);
        if (n > 3 && step == 1) {
            for (int64_t p = 0; p < depth; p++)
                for (int64_t i = 0; i < n; i++) to[p * width + j + i] = from[outer[p] + inner[j] + i];
            j += n;
            continue;
        }
        for (int64_t p = 0; p < depth; p++) to[p * width + j] = from[outer[p] + inner[j]];
        j++;
    }
}

static inline void put_TYPE(const TYPE *restrict sums, TYPE *c, const int64_t *rows, int64_t height,
                            const int64_t *columns, int64_t width, int adds) {
    const int is_run = columns[width - 1] - columns[0] == width - 1;
    for (int64_t i = 0; i < height; i++, sums += COLUMNS_TYPE) {
        TYPE *to = c + rows[i];
        if (is_run && adds) for (int64_t j = 0; j < width; j++) to[columns[0] + j] += sums[j];
        else if (is_run) for (int64_t j = 0; j < width; j++) to[columns[0] + j] = sums[j];
        else for (int64_t j = 0; j < width; j++) to[columns[j]] = (adds ? to[columns[j]] : 0) + sums[j];
    }
}

// Few rows: nothing is packed. Along the rows of b where these lie side by side, else along its columns.
static void thin_product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, Table at, const TYPE *b, Table bt, TYPE *c,
                              Table ct, int adds) {
    for (int64_t i = 0; i < m; i++) {
        const TYPE *row = a + at.rows[i];
        TYPE *to = c + ct.rows[i];
        if (n > 1 && bt.columns[1] - bt.columns[0] <= 2) {
            for (int64_t j = 0, step; j < n;) {
                TYPE sums[STRETCH] = {0};
                const int64_t count = stretch(bt.columns + j, n - j, &step);
                for (int64_t p = 0; p < k; p++) {
                    const TYPE x = row[at.columns[p]], *from = b + bt.rows[p] + bt.columns[j];
                    if (step == 1) for (int64_t q = 0; q < count; q++) sums[q] += x * from[q];
                    else for (int64_t q = 0; q < count; q++) sums[q] += x * from[q * step];
                }
                for (int64_t q = 0; q < count; q++, j++) to[ct.columns[j]] = (adds ? to[ct.columns[j]] : 0) + sums[q];
            }
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            const TYPE *column = b + bt.columns[j];
            double sum = adds ? to[ct.columns[j]] : 0;
            for (int64_t p = 0, step, other; p < k;) {
                const int64_t count = smaller(stretch(bt.rows + p, k - p, &step), stretch(at.columns + p, k - p, &other));
                const TYPE *x = row + at.columns[p], *y = column + bt.rows[p];
                TYPE part = 0;
                if (step == 1 && other == 1) {
                    #pragma omp simd reduction(+:part)
                    for (int64_t q = 0; q < count; q++) part += x[q] * y[q];
                } else
                    for (int64_t q = 0; q < count; q++) part += x[q * other] * y[q * step];
                sum += part;
                p += count;
            }
            to[ct.columns[j]] = sum;
        }
    }
}

// c = a b, or c += a b: [m, k] and [k, n]. Returns 1 where there is no memory.
static int product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, Table at, const TYPE *b, Table bt, TYPE *c,
                        Table ct, int adds) {
    if (m < THIN || k == 0) {
        thin_product_TYPE(m, n, k, a, at, b, bt, c, ct, adds);
        return 0;
    }
    const int64_t strips = (m + TILE_ROWS - 1) / TILE_ROWS, deep = smaller(k, DEPTH);
    const int64_t wide = smaller(n + COLUMNS_TYPE, WIDTH);
    const int shared = m * n * k >= 262144 && !omp_in_parallel();
    TYPE *lefts = malloc((strips * TILE_ROWS + wide) * deep * sizeof(TYPE)), *rights = lefts + strips * TILE_ROWS * deep;
    if (!lefts) return 1;
    for (int64_t start = 0; start < k; start += DEPTH) {
        const int64_t depth = smaller(DEPTH, k - start);
        #pragma omp parallel for if (shared)
        for (int64_t s = 0; s < strips; s++)
            pack_TYPE(a, at.columns + start, depth, at.rows + s * TILE_ROWS, smaller(TILE_ROWS, m - s * TILE_ROWS),
                      TILE_ROWS, lefts + s * TILE_ROWS * depth);
        for (int64_t first = 0; first < n; first += WIDTH) {
            const int64_t panels = (smaller(WIDTH, n - first) + COLUMNS_TYPE - 1) / COLUMNS_TYPE;
            #pragma omp parallel for if (shared)
            for (int64_t q = 0; q < panels; q++) {
                const int64_t column = first + q * COLUMNS_TYPE;
                pack_TYPE(b, bt.rows + start, depth, bt.columns + column, smaller(COLUMNS_TYPE, n - column),
                          COLUMNS_TYPE, rights + q * COLUMNS_TYPE * depth);
            }
            #pragma omp parallel for collapse(2) if (shared)
            for (int64_t top = 0; top < strips; top += STRIPS)
                for (int64_t q = 0; q < panels; q++)
                    for (int64_t s = top; s < smaller(top + STRIPS, strips); s++) {
                        TYPE sums[TILE_ROWS * COLUMNS_TYPE];
                        const int64_t row = s * TILE_ROWS, column = first + q * COLUMNS_TYPE;
                        tile_TYPE(depth, lefts + row * depth, rights + q * COLUMNS_TYPE * depth, sums);
                        put_TYPE(sums, c, ct.rows + row, smaller(TILE_ROWS, m - row), ct.columns + column,
                                 smaller(COLUMNS_TYPE, n - column), adds || start > 0);
                    }
        }
    }
    free(lefts);
    return 0;
}

// The products of as many matrices, which are as far apart as the first of their strides; the result lies row by row.
static int matrix_products_TYPE(int64_t count, int64_t m, int64_t n, int64_t k, const TYPE *a, const int64_t *a_strides,
                                const TYPE *b, const int64_t *b_strides, TYPE *c) {
    int64_t *tables = malloc((2 * (m + n + k) + 1) * sizeof(int64_t));
    if (!tables) return 1;
    const Table at = {tables, tables + m}, bt = {at.columns + k, at.columns + 2 * k};
    const Table ct = {bt.columns + n, bt.columns + n + m};
    const int64_t steps[6] = {a_strides[1], a_strides[2], b_strides[1], b_strides[2], n, 1}, sizes[6] = {m, k, k, n, m, n};
    int64_t *next = tables;
    for (int i = 0; i < 6; i++) {
        equal_steps(next, sizes[i], steps[i]);
        next += sizes[i];
    }
    int status = 0;
    #pragma omp parallel for reduction(|:status) if (count >= omp_get_max_threads() && count * m * n * k >= 262144)
    for (int64_t each = 0; each < count; each++)
        status |= product_TYPE(m, n, k, a + each * a_strides[0], at, b + each * b_strides[0], bt, c + each * m * n, ct, 0);
    free(tables);
    return status;
}
