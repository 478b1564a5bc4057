// The MATRICES of one launch, which multiply the same rows of x: their strips come one after
// another. bias, scale, residual: null where there is none; residual: rows to add results to.

typedef struct {
    __global const uchar *weight;
    __global const float *bias, *scale;
    __global float *y;
    int rows, strip;
} Matrix;

#define PARAMETERS(n) \
    , __global const uchar *weight##n, __global const float *bias##n, \
        __global const float *scale##n, __global float *y##n, int rows##n

#define TAKE(n) \
    if (strip >= 0) { \
        Matrix next = {weight##n, bias##n, scale##n, y##n, rows##n, strip}; \
        own = next; \
        strip -= (rows##n + STRIP - 1) / STRIP; \
    }

#if MATRICES == 1
#define MATRIX_PARAMETERS PARAMETERS(0)
#define TAKE_MATRIX TAKE(0)
#elif MATRICES == 2
#define MATRIX_PARAMETERS PARAMETERS(0) PARAMETERS(1)
#define TAKE_MATRIX TAKE(0) TAKE(1)
#else
#define MATRIX_PARAMETERS PARAMETERS(0) PARAMETERS(1) PARAMETERS(2)
#define TAKE_MATRIX TAKE(0) TAKE(1) TAKE(2)
#endif

static inline __global const uchar *strip_of(Matrix own, int columns)
{
    return own.weight + (size_t)own.strip * (columns / BLOCK_SIZE * TYPE_SIZE) * STRIP;
}

static inline floatV finished(floatV value, __global const float *bias,
                              __global const float *scale, int count)
{
    if (scale)
        value *= *scale;
    if (bias)
        value += load_head(count, bias);
    return value;
}

// Results of V rows from `row` on for one row of x.
static inline void finish(floatV value, Matrix own, __global const float *residual, int row,
                          int token)
{
    int count = own.rows - row;
    size_t place = (size_t)token * own.rows + row;
    value = finished(value, own.bias ? own.bias + row : 0, own.scale, count);
    if (residual)
        value += load_head(count, residual + place);
    store_head(value, count, own.y + place);
}
