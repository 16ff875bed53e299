// c = a b: [m, k] with strides a0, a1, [k, n] with strides b0, b1; rows of c are c0 apart. 1 where there is no memory.
// Both are packed into panels that stay in the caches, rows of b in the second level and those of a in the first.
enum { PANEL_ROWS_TYPE = 6, PANEL_COLUMNS_TYPE = 64 / sizeof(TYPE) < 16 ? 16 : 64 / sizeof(TYPE) };
enum { DEPTH_TYPE = 256, STRIP_TYPE = 96 };

static inline void panel_TYPE(int64_t depth, const TYPE *restrict a, const TYPE *restrict b, TYPE *restrict c,
                              int64_t c0, int64_t rows, int64_t columns, int first) {
    TYPE sums[PANEL_ROWS_TYPE][PANEL_COLUMNS_TYPE] = {{0}};
    for (int64_t p = 0; p < depth; p++)
        for (int i = 0; i < PANEL_ROWS_TYPE; i++) {
            const TYPE x = a[p * PANEL_ROWS_TYPE + i];
            #pragma omp simd
            for (int j = 0; j < PANEL_COLUMNS_TYPE; j++) sums[i][j] += x * b[p * PANEL_COLUMNS_TYPE + j];
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) c[i * c0 + j] = (first ? 0 : c[i * c0 + j]) + sums[i][j];
}

static int matrix_product_TYPE(int64_t m, int64_t n, int64_t k, const TYPE *a, const TYPE *b, int64_t a0, int64_t a1,
                               int64_t b0, int64_t b1, TYPE *c, int64_t c0) {
    if (k == 0)
        for (int64_t i = 0; i < m; i++) memset(c + i * c0, 0, n * sizeof(TYPE));
    if (m == 0 || n == 0 || k == 0) return 0;
    const int64_t panels = (n + PANEL_COLUMNS_TYPE - 1) / PANEL_COLUMNS_TYPE;
    const int64_t strips = (m + STRIP_TYPE - 1) / STRIP_TYPE;
    TYPE *packed = malloc(panels * PANEL_COLUMNS_TYPE * DEPTH_TYPE * sizeof(TYPE));
    if (!packed) return 1;
    for (int64_t start = 0; start < k; start += DEPTH_TYPE) {
        const int64_t depth = smaller(DEPTH_TYPE, k - start);
        #pragma omp parallel for if (m * n * depth >= 32768)
        for (int64_t q = 0; q < panels; q++)
            for (int64_t p = 0; p < depth; p++)
                for (int64_t j = 0; j < PANEL_COLUMNS_TYPE; j++) {
                    const int64_t column = q * PANEL_COLUMNS_TYPE + j;
                    packed[(q * depth + p) * PANEL_COLUMNS_TYPE + j] = column < n ? b[(start + p) * b0 + column * b1] : 0;
                }
        #pragma omp parallel for if (m * n * depth >= 32768)
        for (int64_t s = 0; s < strips; s++) {
            TYPE rows[STRIP_TYPE * DEPTH_TYPE];
            const int64_t top = s * STRIP_TYPE, bottom = smaller(m, top + STRIP_TYPE);
            for (int64_t i = top; i < bottom; i += PANEL_ROWS_TYPE)
                for (int64_t p = 0; p < depth; p++)
                    for (int64_t r = 0; r < PANEL_ROWS_TYPE; r++)
                        rows[(i - top) * depth + p * PANEL_ROWS_TYPE + r] =
                            i + r < bottom ? a[(i + r) * a0 + (start + p) * a1] : 0;
            for (int64_t q = 0; q < panels; q++)
                for (int64_t i = top; i < bottom; i += PANEL_ROWS_TYPE)
                    panel_TYPE(depth, rows + (i - top) * depth, packed + q * depth * PANEL_COLUMNS_TYPE,
                               c + i * c0 + q * PANEL_COLUMNS_TYPE, c0, smaller(PANEL_ROWS_TYPE, bottom - i),
                               smaller(PANEL_COLUMNS_TYPE, n - q * PANEL_COLUMNS_TYPE), start == 0);
        }
    }
    free(packed);
    return 0;
}
