// What the snippets of block formats are written with. A snippet defines
//
//     void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
//
// which reads 32 weights, group g of a block, in each of V rows: q gets eight words of four bytes
// in order of k; weight = scale * (byte - OFFSET) + low. Where GROUP is 16, scale[0] and low[0]
// belong to the first 16 weights and [1] to the others. `low` is only written where HAS_LOW. Bytes
// are at most Q_MAX in magnitude, and none is negative unless Q_SIGNED.

// Where one block of V rows lies. STRIP rows go side by side, word by word (strips.py).
typedef struct {
    __global const uchar *words;  // of the first row
    __global const uchar *odd;    // the one or two bytes that are no whole word
} Source;

static inline Source source_of(__global const uchar *strip, int block, int lane)
{
    __global const uchar *record = strip + (size_t)block * TYPE_SIZE * STRIP;
    Source src;
    src.words = record + 4 * V * lane;
    src.odd = record + TYPE_SIZE / 4 * 4 * STRIP + TYPE_SIZE % 4 * V * lane;
    return src;
}

#define WORD(i) load_aligned((__global const uint *)(src.words + 4 * STRIP * (i)))
#define ODD_HALF convert_uintV(loadV((__global const ushort *)src.odd))
#define ODD_BYTE convert_uintV(loadV(src.odd))
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

// The bytes of four nibbles, which are the low halves of the bytes of `codes`.
static inline uintV translate4(uintV codes, __constant const uint *values)
{
    return GATHER(values, codes & 15u) | GATHER(values, codes >> 8 & 15u) << 8 |
           GATHER(values, codes >> 16 & 15u) << 16 | GATHER(values, codes >> 24 & 15u) << 24;
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
