// Sums of products of V rows of block-format weights with records of quantize.cl, for several rows
// of x at once. Sums within a group are exact integers; groups are added in order of k by fused
// multiply-adds, within each of SLICES parts of a row, and those parts in order: so an element has
// the same bits however many rows are computed with it.

#define GROUPS (BLOCK_SIZE / 32)
#define PARTS (32 / GROUP)      // of a group, with a scale each
#define PART_WORDS (GROUP / 4)

#ifdef TILE_TOKENS
#define X_SPACE __local
#else
#define X_SPACE __global
#endif

#ifdef HAS_DOT4

static inline intV dot(const uintV *q, __private const uint *x, int start)
{
    intV sum = start;
    UNROLL
    for (int i = 0; i < PART_WORDS; i++)
        sum = DOT4V(q[i], x[i], sum);
    return sum;
}

#define X_WORDS 1  // per four values

#else

// Words whose products add up in 16 bits: each word adds two, of at most Q_MAX * 127.
#define SUMS (Q_MAX <= 15 ? 8 : Q_MAX <= 31 ? 4 : Q_MAX <= 63 ? 2 : 1)
#define STEP (SUMS < PART_WORDS ? SUMS : PART_WORDS)

#ifdef HAS_BYTE_PAIRS  // byte_pairs.cl

#define X_WORDS 1
#define PAIRS_OF(q, x) pairs_of(q, (x)[0])

#else

#define X_WORDS 2
#define PAIRS_OF(q, x) pairs_of(q, (x)[0], (x)[1])

static inline short2V pairs_of(uintV q, uint even_x, uint odd_x)
{
#ifdef Q_SIGNED
    short2V even = as_short2V(q << 8) >> (short2V)(8);
#else
    short2V even = as_short2V(q & 0x00ff00ffu);
#endif
    short2V odd = as_short2V(q) >> (short2V)(8);
    return even * as_short2V((uintV)(even_x)) + odd * as_short2V((uintV)(odd_x));
}

static inline intV sum_of_pairs(short2V pairs)
{
    intV both = as_intV(pairs);
    return (both << 16 >> 16) + (both >> 16);
}

#endif

static inline intV dot(const uintV *q, X_SPACE const uint *x, int start)
{
    intV sum = start;
    short2V part = 0;
    UNROLL  // one loop: drivers keep arrays that inner loops read in memory
    for (int i = 0; i < PART_WORDS; i++) {
        part += PAIRS_OF(q[i], x + X_WORDS * i);
        if (i % STEP == STEP - 1) {
            sum += sum_of_pairs(part);
            part = 0;
        }
    }
    return sum;
}

#endif

static inline floatV add_group(floatV acc, const uintV *q, const floatV *scale, const floatV *low,
                               X_SPACE const uint *record)
{
#ifdef HAS_DOT4  // by 16 bytes, as GPUs read best
    uint x[RECORD];
    UNROLL
    for (int i = 0; i < RECORD; i += 4) {
        uint4 piece = *(X_SPACE const uint4 *)(record + i);
        x[i] = piece.s0, x[i + 1] = piece.s1, x[i + 2] = piece.s2, x[i + 3] = piece.s3;
    }
#else
    X_SPACE const uint *x = record;
#endif
    float d = as_float(x[0]);
    UNROLL
    for (int j = 0; j < PARTS; j++) {
        int total = PARTS == 1 ? as_int(x[1]) + as_int(x[2]) : as_int(x[1 + j]);
        intV sum = dot(q + PART_WORDS * j, x + 4 + PART_WORDS * X_WORDS * j, -OFFSET * total);
        acc = fused(scale[j] * d, convert_floatV(sum), acc);
#ifdef HAS_LOW
        acc = fused(low[j], (floatV)(d * (float)total), acc);
#endif
    }
    return acc;
}

// Words of one row of x.
#define X_ROW(columns) ((columns) / 32 * RECORD)
typedef uint XType;

#ifdef TILE_TOKENS  // see tile.cl

#define UNITS GROUPS
#define TILE_UNITS TILE_GROUPS
#define X_UNIT RECORD
typedef uint4 XPiece;
#ifdef HAS_LOW
#define WEIGHT_WORDS (8 + 2 * PARTS)
#else
#define WEIGHT_WORDS (8 + PARTS)
#endif

static inline void widen(__global const uchar *strip, int unit, int lane, Grid grid,
                         __local uint *to)
{
    uintV q[8];
    floatV scale[PARTS], low[PARTS];
    unpack(source_of(strip, unit / GROUPS, lane, grid), unit % GROUPS, q, scale, low);
    UNROLL
    for (int i = 0; i < 8; i++)
        store_aligned(q[i], to + i * STRIP);
    UNROLL
    for (int j = 0; j < PARTS; j++) {
        store_aligned(as_uintV(scale[j]), to + (8 + j) * STRIP);
#ifdef HAS_LOW
        store_aligned(as_uintV(low[j]), to + (8 + PARTS + j) * STRIP);
#endif
    }
}

static inline void add_unit(floatV *acc, __local const uint *weights, __local const uint *x,
                            int between)
{
    uintV q[8];
    floatV scale[PARTS], low[PARTS];
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = load_aligned(weights + i * STRIP);
    UNROLL
    for (int j = 0; j < PARTS; j++) {
        scale[j] = as_floatV(load_aligned(weights + (8 + j) * STRIP));
#ifdef HAS_LOW
        low[j] = as_floatV(load_aligned(weights + (8 + PARTS + j) * STRIP));
#endif
    }
    UNROLL
    for (int t = 0; t < ITEM_TOKENS; t++)
        acc[t] = add_group(acc[t], q, scale, low, x + t * between);
}

#else

// Blocks `from` to `to` of the strip's rows times the rows of x that begin at words at[0..TOKENS].
static inline void add_products(floatV *acc, __global const uchar *strip, __global const uint *x,
                                const uint *at, int lane, Grid grid, int from, int to)
{
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        acc[t] = 0.0f;
    for (int b = from; b < to; b++) {
        Source src = source_of(strip, b, lane, grid);
        ASK_FOR(src.words, TYPE_SIZE * STRIP);
        for (int g = 0; g < GROUPS; g++) {
            uintV q[8];
            floatV scale[PARTS], low[PARTS];
            unpack(src, g, q, scale, low);
            UNROLL
            for (int t = 0; t < TOKENS; t++)
                acc[t] = add_group(acc[t], q, scale, low, x + at[t] + (b * GROUPS + g) * RECORD);
        }
    }
}

#endif
