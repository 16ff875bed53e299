// Matrix products. Where the elements of a matrix are, tables say: [i, j] is at rows[i] + columns[j]. That is a matrix
// with any strides, and all that the windows of a convolution see, too.
// Both factors are packed into panels that stay in the caches, and a tile of the result stays in registers.
#ifndef MATRICES
#define MATRICES
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 12 };
#elif defined(__AVX__)
enum { VECTOR = 32, TILE_ROWS = 6 };
#elif defined(__aarch64__)
enum { VECTOR = 16, TILE_ROWS = 8 };
#else
enum { VECTOR = 16, TILE_ROWS = 4 };
#endif
enum { DEPTH = 256, WIDTH = 512, STRIPS = 8, THIN = 4, STRETCH = 256, LONG = 8192 };
enum { WORK = 1 << 20 };  // multiplications from which on threads pay
// Entries follow each other by equal steps in runs of some length, the last of which may be shorter.
typedef struct { int64_t *rows, *columns, row_run, column_run; } Table;
#ifdef __clang__
#define SHUFFLED(kind, x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#else
#define SHUFFLED(kind, x, y, a, b, c, d) __builtin_shuffle(x, y, (kind){a, b, c, d})
#endif
static inline void equal_steps(int64_t *table, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; i++) table[i] = i * step;
}
#endif

enum { LANES_TYPE = VECTOR / sizeof(TYPE), COLUMNS_TYPE = 2 * LANES_TYPE };
typedef TYPE vector_TYPE __attribute__((vector_size(VECTOR), aligned(sizeof(TYPE)), may_alias));
typedef TYPE four_TYPE __attribute__((vector_size(4 * sizeof(TYPE)), aligned(sizeof(TYPE)), may_alias));
typedef __typeof__(_Generic((TYPE)0, float: (int32_t)0, double: (int64_t)0, default: (TYPE)0)) place_TYPE;
typedef place_TYPE places_TYPE __attribute__((vector_size(4 * sizeof(TYPE))));
typedef __typeof__(_Generic((TYPE)0, float: 0.0, double: 0.0, default: (int64_t)0)) sum_TYPE;

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

// Four by four elements, turned.
static inline void turned_TYPE(const TYPE *a, const TYPE *b, const TYPE *c, const TYPE *d, TYPE *to, int64_t width) {
    const four_TYPE w = *(const four_TYPE *)a, x = *(const four_TYPE *)b, y = *(const four_TYPE *)c;
    const four_TYPE z = *(const four_TYPE *)d;
    const four_TYPE low = SHUFFLED(places_TYPE, w, x, 0, 4, 1, 5), high = SHUFFLED(places_TYPE, w, x, 2, 6, 3, 7);
    const four_TYPE low2 = SHUFFLED(places_TYPE, y, z, 0, 4, 1, 5), high2 = SHUFFLED(places_TYPE, y, z, 2, 6, 3, 7);
    *(four_TYPE *)to = SHUFFLED(places_TYPE, low, low2, 0, 1, 4, 5);
    *(four_TYPE *)(to + width) = SHUFFLED(places_TYPE, low, low2, 2, 3, 6, 7);
    *(four_TYPE *)(to + 2 * width) = SHUFFLED(places_TYPE, high, high2, 0, 1, 4, 5);
    *(four_TYPE *)(to + 3 * width) = SHUFFLED(places_TYPE, high, high2, 2, 3, 6, 7);
}

// A panel: for each of depth entries of outer, width of the count entries of inner, then zeros.
static inline void pack_TYPE(const TYPE *from, const int64_t *outer, int64_t depth, const int64_t *inner, int64_t count,
                             int width, TYPE *restrict to) {
    if (count == width && inner[count - 1] - inner[0] == count - 1) {
        for (int64_t p = 0; p < depth; p++) memcpy(to + p * width, from + outer[p] + inner[0], width * sizeof(TYPE));
        return;
    }
    if (count < width) memset(to, 0, depth * width * sizeof(TYPE));
    for (int64_t j = 0; j < count;) {
        int64_t n = 1;
        while (j + n < count && inner[j + n] == inner[j] + n) n++;
        if (n >= 4) {
            for (int64_t p = 0; p < depth; p++)
                for (int64_t i = 0; i < n; i++) to[p * width + j + i] = from[outer[p] + inner[j] + i];
            j += n;
            continue;
        }
        const int64_t *in = inner + j;
        const int turns = j + 4 <= count;
        for (int64_t p = 0; p < depth;)
            if (turns && p + 4 <= depth && outer[p + 3] - outer[p] == 3) {
                const TYPE *here = from + outer[p];
                turned_TYPE(here + in[0], here + in[1], here + in[2], here + in[3], to + p * width + j, width);
                p += 4;
            } else {
                for (int i = 0; i < (turns ? 4 : 1); i++) to[p * width + j + i] = from[outer[p] + in[i]];
                p++;
            }
        j += turns ? 4 : 1;
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

// A row of few: nothing is packed. Sums of rows of b, where its columns lie side by side.
static inline void summed_rows_TYPE(int64_t n, int64_t k, const TYPE *row, const int64_t *at, const TYPE *b, Table bt,
                                    TYPE *to, const int64_t *places, int adds) {
    for (int64_t j = 0; j < n;) {
        TYPE sums[STRETCH];
        const int64_t left = bt.column_run - j % bt.column_run, most = smaller(STRETCH, smaller(left, n - j));
        const int64_t step = most > 1 ? bt.columns[j + 1] - bt.columns[j] : 1;
        for (int64_t q = 0; q < most; q++) sums[q] = adds ? to[places[j + q]] : 0;
        for (int64_t p = 0; p < k; p++) {
            const TYPE x = row[at[p]], *from = b + bt.rows[p] + bt.columns[j];
            if (step == 1) for (int64_t q = 0; q < most; q++) sums[q] += x * from[q];
            else for (int64_t q = 0; q < most; q++) sums[q] += x * from[q * step];
        }
        for (int64_t q = 0; q < most; q++) to[places[j + q]] = sums[q];
        j += most;
    }
}

// The sum of products of two rows, in stretches where both have equal steps.
static inline sum_TYPE dot_TYPE(int64_t k, const TYPE *row, const int64_t *at, int64_t at_run, const TYPE *column,
                              const int64_t *bt, int64_t bt_run) {
    sum_TYPE sum = 0;
    for (int64_t p = 0; p < k;) {
        vector_TYPE several = {0};
        TYPE rest = 0;
        for (const int64_t end = smaller(k, p + LONG); p < end;) {
            const int64_t most = smaller(end - p, smaller(at_run - p % at_run, bt_run - p % bt_run));
            const int64_t step = most > 1 ? at[p + 1] - at[p] : 1, other = most > 1 ? bt[p + 1] - bt[p] : 1;
            const TYPE *x = row + at[p], *y = column + bt[p];
            int64_t q = 0;
            if (step == 1 && other == 1)
                for (; q + LANES_TYPE <= most; q += LANES_TYPE)
                    several += *(const vector_TYPE *)(x + q) * *(const vector_TYPE *)(y + q);
            for (; q < most; q++) rest += x[q * step] * y[q * other];
            p += most;
        }
        for (int i = 0; i < LANES_TYPE; i++) sum += several[i];
        sum += rest;
    }
    return sum;
}

static void thin_product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, Table at, const TYPE *b, Table bt, TYPE *c,
                              Table ct, int adds) {
    const int is_wide = n > 1 && bt.column_run > 1 && llabs(bt.columns[1] - bt.columns[0]) <= 2;
    for (int64_t i = 0; i < m; i++) {
        TYPE *to = c + ct.rows[i];
        if (is_wide) summed_rows_TYPE(n, k, a + at.rows[i], at.columns, b, bt, to, ct.columns, adds);
        else
            for (int64_t j = 0; j < n; j++)
                to[ct.columns[j]] = (adds ? to[ct.columns[j]] : 0) + dot_TYPE(k, a + at.rows[i], at.columns, at.column_run,
                                                                               b + bt.columns[j], bt.rows, bt.row_run);
    }
}

// Panel by panel, in one thread.
static int packed_product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, Table at, const TYPE *b, Table bt, TYPE *c,
                               Table ct, int adds) {
    const int64_t strips = (m + TILE_ROWS - 1) / TILE_ROWS, deep = smaller(k, DEPTH);
    const int64_t wide = smaller(n + COLUMNS_TYPE, WIDTH);
    TYPE *lefts = malloc((strips * TILE_ROWS + wide) * deep * sizeof(TYPE)), *rights = lefts + strips * TILE_ROWS * deep;
    if (!lefts) return 1;
    for (int64_t start = 0; start < k; start += DEPTH) {
        const int64_t depth = smaller(DEPTH, k - start);
        for (int64_t row = 0; row < m; row += TILE_ROWS)
            pack_TYPE(a, at.columns + start, depth, at.rows + row, smaller(TILE_ROWS, m - row), TILE_ROWS,
                      lefts + row * depth);
        for (int64_t first = 0; first < n; first += WIDTH) {
            const int64_t end = smaller(first + WIDTH, n);
            for (int64_t column = first; column < end; column += COLUMNS_TYPE)
                pack_TYPE(b, bt.rows + start, depth, bt.columns + column, smaller(COLUMNS_TYPE, n - column),
                          COLUMNS_TYPE, rights + (column - first) * depth);
            for (int64_t top = 0; top < m; top += STRIPS * TILE_ROWS)
                for (int64_t column = first; column < end; column += COLUMNS_TYPE)
                    for (int64_t row = top; row < smaller(top + STRIPS * TILE_ROWS, m); row += TILE_ROWS) {
                        TYPE sums[TILE_ROWS * COLUMNS_TYPE];
                        tile_TYPE(depth, lefts + row * depth, rights + (column - first) * depth, sums);
                        put_TYPE(sums, c, ct.rows + row, smaller(TILE_ROWS, m - row), ct.columns + column,
                                 smaller(COLUMNS_TYPE, n - column), adds || start > 0);
                    }
        }
    }
    free(lefts);
    return 0;
}

// c = a b, or c += a b: [m, k] and [k, n]. Returns 1 where there is no memory. Each thread has columns of its own, and
// rows if these are too few: it packs what it needs, and waits for no other before the end.
static int product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, Table at, const TYPE *b, Table bt, TYPE *c,
                        Table ct, int adds) {
    if (m < THIN || k == 0) {
        thin_product_TYPE(m, n, k, a, at, b, bt, c, ct, adds);
        return 0;
    }
    const int64_t threads = m * n * k < WORK || omp_in_parallel() ? 1 : omp_get_max_threads();
    const int64_t across = larger(1, smaller(threads, n / (4 * COLUMNS_TYPE)));
    const int64_t down = larger(1, smaller(threads / across, m / (4 * TILE_ROWS)));
    const int64_t width = ((n + across - 1) / across + COLUMNS_TYPE - 1) / COLUMNS_TYPE * COLUMNS_TYPE;
    const int64_t height = ((m + down - 1) / down + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    int status = 0;
    #pragma omp parallel for collapse(2) reduction(|:status) if (across * down > 1)
    for (int64_t i = 0; i < down; i++)
        for (int64_t j = 0; j < across; j++) {
            const int64_t row = i * height, column = j * width;
            if (row >= m || column >= n) continue;
            const Table rows = {at.rows + row, at.columns, at.row_run, at.column_run};
            const Table columns = {bt.rows, bt.columns + column, bt.row_run, bt.column_run};
            const Table result = {ct.rows + row, ct.columns + column, ct.row_run, ct.column_run};
            status |= packed_product_TYPE(smaller(height, m - row), smaller(width, n - column), k, a, rows, b, columns, c,
                                          result, adds);
        }
    return status;
}

// The products of as many matrices, which are as far apart as the first of their strides; the result lies row by row.
static int matrix_products_TYPE(int64_t count, int64_t m, int64_t n, int64_t k, const TYPE *a, const int64_t *a_strides,
                                const TYPE *b, const int64_t *b_strides, TYPE *c) {
    int64_t *tables = malloc((2 * (m + n + k) + 1) * sizeof(int64_t));
    if (!tables) return 1;
    const Table at = {tables, tables + m, larger(m, 1), larger(k, 1)};
    const Table bt = {at.columns + k, at.columns + 2 * k, larger(k, 1), larger(n, 1)};
    const Table ct = {bt.columns + n, bt.columns + n + m, larger(m, 1), larger(n, 1)};
    const int64_t steps[6] = {a_strides[1], a_strides[2], b_strides[1], b_strides[2], n, 1}, sizes[6] = {m, k, k, n, m, n};
    int64_t *next = tables;
    for (int i = 0; i < 6; i++) {
        equal_steps(next, sizes[i], steps[i]);
        next += sizes[i];
    }
    int status = 0;
    #pragma omp parallel for reduction(|:status) if (count >= omp_get_max_threads() && count * m * n * k >= WORK)
    for (int64_t each = 0; each < count; each++)
        status |= product_TYPE(m, n, k, a + each * a_strides[0], at, b + each * b_strides[0], bt, c + each * m * n, ct, 0);
    free(tables);
    return status;
}
