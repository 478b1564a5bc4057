// What the snippets of block formats are written with. A snippet defines
//
//     void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
//
// which reads 32 weights, group g of a block, in each of V rows: q gets eight words of four bytes
// in order of k; weight = scale * (byte - OFFSET) + low. Where GROUP is 16, scale[0] and low[0]
// belong to the first 16 weights and [1] to the others. `low` is only written where HAS_LOW. Bytes
// are at most Q_MAX in magnitude, and none is negative unless Q_SIGNED.

// Where the format's grid is read, if it has one (GRID, of GRID_WORDS): in a copy in local memory, for
// NVIDIA's GPUs read different words of constant memory for one work-item after another.
#ifdef LOCAL_GRID
typedef __local const uint *Grid;

static inline Grid grid_in(__local uint *room, int item, int items)
{
    for (int i = item; i < GRID_WORDS / 4; i += items)
        ((__local uint4 *)room)[i] = ((__constant const uint4 *)GRID)[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    return room;
}
#else
typedef __constant const uint *Grid;
#define grid_in(room, item, items) GRID
#endif
#ifndef GRID_WORDS
#define GRID 0
#endif

// Where one block of V rows lies. STRIP rows go side by side, word by word (strips.py).
typedef struct {
    __global const uchar *words;  // of the first row
    __global const uchar *odd;    // the one or two bytes that are no whole word
    Grid grid;
} Source;

static inline Source source_of(__global const uchar *strip, int block, int lane, Grid grid)
{
    __global const uchar *record = strip + (size_t)block * TYPE_SIZE * STRIP;
    Source src;
    src.words = record + 4 * V * lane;
    src.odd = record + TYPE_SIZE / 4 * 4 * STRIP + TYPE_SIZE % 4 * V * lane;
    src.grid = grid;
    return src;
}

#define WORD(i) load_aligned((__global const uint *)(src.words + 4 * STRIP * (i)))
#define ODD_HALF convert_uintV(load_aligned((__global const ushort *)src.odd))
#define ODD_BYTE convert_uintV(load_aligned(src.odd))
#define BYTE(word, i) ((word) >> (uint)(8 * (i)) & 255u)

// Four bits to the lowest bits of four bytes; four pairs of bits to four bytes.
static inline uintV spread_bits(uintV bits)
{
    return (bits & 15u) * 0x00204081u & 0x01010101u;
}

static inline uintV spread_pairs(uintV bits)
{
    uintV halves = (bits | bits << 12) & 0x000f000fu;
    return (halves | halves << 6) & 0x03030303u;
}

// Four bytes, each 1 to 127, negated where a bit of `signs` is set.
static inline uintV negate4(uintV word, uintV signs)
{
    uintV ones = spread_bits(signs);
    return (word ^ ones * 255u) + ones;
}

// Seven bits and an eighth that makes the number of set bits even.
static inline uintV even_signs(uintV bits)
{
    uintV parity = bits ^ bits >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return bits | (parity & 1u) << 7;
}

static inline uintV pick(uintV a, uintV b, uintV of_b)
{
    return a ^ ((a ^ b) & of_b);
}

// Bytes of the sixteen in `values`: low gets those that the low halves of the bytes of `codes` say,
// high the others. Not by reading a table, which GPUs do for one work-item after another.
static inline void translate8(uintV codes, __constant const uint *values, uintV *low, uintV *high)
{
#ifdef PERMUTE_BY_NIBBLES  // by four of them
    uintV at = codes & 0x77777777u, upper = codes >> 1 & 0x44444444u | 0x32103210u;
    uintV first = PERMUTE_BY_NIBBLES(PERMUTE_BY_NIBBLES(values[0], values[1], at),
                                     PERMUTE_BY_NIBBLES(values[2], values[3], at), upper);
    at >>= 16;
    upper >>= 16;
    uintV last = PERMUTE_BY_NIBBLES(PERMUTE_BY_NIBBLES(values[0], values[1], at),
                                    PERMUTE_BY_NIBBLES(values[2], values[3], at), upper);
    *low = PERMUTE_BY_NIBBLES(first, last, 0x6420u);
    *high = PERMUTE_BY_NIBBLES(first, last, 0x7531u);
#elif defined PERMUTE_BY_BYTES
    UNROLL
    for (int upper = 0; upper < 2; upper++) {
        uintV code = codes >> (uint)(4 * upper), at = code & 0x07070707u;
        *(upper ? high : low) = PERMUTE_BY_BYTES(PERMUTE_BY_BYTES(values[0], values[1], at),
                                                 PERMUTE_BY_BYTES(values[2], values[3], at),
                                                 code >> 1 & 0x04040404u | 0x03020100u);
    }
#else
#define VALUES(i) (uintV)((values[(i) / 4] >> 8 * ((i) % 4) & 255u) * 0x01010101u)
#define OF_2(i) pick(VALUES(i), VALUES(i + 1), is_set[0])
#define OF_4(i) pick(OF_2(i), OF_2(i + 2), is_set[1])
#define OF_8(i) pick(OF_4(i), OF_4(i + 4), is_set[2])
    UNROLL
    for (int upper = 0; upper < 2; upper++) {
        uintV is_set[4];
        UNROLL
        for (int bit = 0; bit < 4; bit++)
            is_set[bit] = (codes >> (uint)(4 * upper + bit) & 0x01010101u) * 255u;
        *(upper ? high : low) = pick(OF_8(0), OF_8(8), is_set[3]);
    }
#endif
}

// The same for E2M1 codes: their values, from -12 to 12, and 12.
static inline void e2m1_and_12(uintV codes, __constant const uint *values, uintV *low, uintV *high)
{
#if defined PERMUTE_BY_NIBBLES || defined PERMUTE_BY_BYTES
    translate8(codes, values, low, high);
#else
    UNROLL
    for (int upper = 0; upper < 2; upper++) {
        uintV code = codes >> (uint)(4 * upper), is_minus = (code >> 3 & 0x01010101u) * 255u;
        uintV rest = (code >> 2 & 0x01010101u) * 3u & code;  // of 4, 6, 8 and 12 above 4
        uintV size = (code & 0x07070707u) + rest + ((rest & rest >> 1 & 0x01010101u) << 1);
        *(upper ? high : low) = 0x0c0c0c0cu + size - (is_minus & size) * 2u;
    }
#endif
}

// The head that Q4_K and Q5_K share: half d, dmin; u8 scales[12], of six bits each.
static inline void k_scales(Source src, int g, floatV *scale, floatV *low)
{
    uintV head = WORD(0);
    floatV d = half_bits(head & 0xffffu), dmin = half_bits(head >> 16);
    int j = g % 4;
    uintV a = BYTE(WORD(1), j), b = BYTE(WORD(2), j), c = BYTE(WORD(3), j);
    uintV s = g < 4 ? a & 63u : (c & 15u) | a >> 6 << 4;
    uintV m = g < 4 ? b & 63u : c >> 4 | b >> 6 << 4;
    *scale = d * convert_floatV(s);
    *low = -dmin * convert_floatV(m);
}
