// Sums of products of V rows of float weights with float rows, as product.cl.

#define X_ROW(columns) (columns)
typedef float XType;

#ifdef TILE_TOKENS  // see tile.cl

#define UNITS 1
#define TILE_UNITS (8 * TILE_GROUPS)
#define X_UNIT 1
typedef uint XPiece;
#define WEIGHT_WORDS 1

static inline void widen(__global const uchar *strip, int unit, int lane, Grid grid,
                         __local uint *to)
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
                                const uint *at, int lane, Grid grid, int from, int to)
{
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0f;
    strip += (size_t)from * TYPE_SIZE * STRIP + TYPE_SIZE * V * lane;
    int k = from;
    for (; k + AT_ONCE <= to; k += AT_ONCE, strip += AT_ONCE * TYPE_SIZE * STRIP) {
        floatV weights[AT_ONCE];
        ASK_FOR(strip, AT_ONCE * TYPE_SIZE * STRIP);
        UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            weights[i] = LOAD_WEIGHT(strip + i * TYPE_SIZE * STRIP);
        UNROLL
        for (int i = 0; i < AT_ONCE * TOKENS; i++) {
            int t = i % TOKENS, n = i / TOKENS;
            acc[t] = fused(weights[n], (floatV)(x[at[t] + k + n]), acc[t]);
        }
    }
    for (; k < to; k++, strip += TYPE_SIZE * STRIP) {
        floatV weight = LOAD_WEIGHT(strip);
        UNROLL
        for (int t = 0; t < TOKENS; t++)
            acc[t] = fused(weight, (floatV)(x[at[t] + k]), acc[t]);
    }
}

#endif
