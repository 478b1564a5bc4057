// Sums of products of V rows of float weights with float rows, as product.cl.

static inline void add_products(floatV *acc, __global const uchar *strip, __global const float *x,
                                const uint *at, int lane, int from, int to)
{
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0f;
    strip += TYPE_SIZE * V * lane;
    for (int k = from; k < to; k++) {
        floatV weight = LOAD_WEIGHT(strip + (size_t)k * TYPE_SIZE * STRIP);
        UNROLL
        for (int t = 0; t < TOKENS; t++)
            acc[t] = fused(weight, (floatV)(x[at[t] + k]), acc[t]);
    }
}

#define X_ROW(columns) (columns)
typedef float XType;
