// Sums of products of V rows of float weights with float rows, as product.cl.

#define X_ROW(columns) (columns)
typedef float XType;

#ifdef TILE_TOKENS  // see tile.cl

#define UNITS 1
#define TILE_UNITS (8 * TILE_GROUPS)
#define X_UNIT 1
typedef uint XPiece;
#define WEIGHT_WORDS 1

static inline void widen(__global const uchar *strip, int unit, int lane, __local uint *to)
{
    strip += (size_t)unit * TYPE_SIZE * STRIP + TYPE_SIZE * V * lane;
    store_aligned(as_uintV(LOAD_WEIGHT(strip)), to);
}

static inline void add_unit(floatV *acc, __local const uint *weights, __local const uint *x,
                            int between)
{
    floatV weight = as_floatV(load_aligned(weights));
    UNROLL
    for (int t = 0; t < ITEM_TOKENS; t++)
        acc[t] = fused(weight, (floatV)(as_float(x[t * between])), acc[t]);
}

#else

static inline void add_products(floatV *acc, __global const uchar *strip, __global const float *x,
                                const uint *at, int lane, int from, int to)
{
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0f;
    strip += TYPE_SIZE * V * lane;
    for (int k = from; k < to; k++) {
        ASK_FOR(strip + (size_t)k * TYPE_SIZE * STRIP, TYPE_SIZE * STRIP);
        floatV weight = LOAD_WEIGHT(strip + (size_t)k * TYPE_SIZE * STRIP);
        UNROLL
        for (int t = 0; t < TOKENS; t++)
            acc[t] = fused(weight, (floatV)(x[at[t] + k]), acc[t]);
    }
}

#endif
