// words: u8 qs[16], two bits each; odd: half d.
#define OFFSET 1
#define Q_MAX 3

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = spread_pairs(BYTE(WORD(2 * g + i / 4), i % 4));
}
