// words: u8 qs[64]; odd: half d.
#define OFFSET 1
#define Q_MAX 3

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = WORD(g / 4 * 8 + i) >> (uint)(2 * (g % 4)) & 0x03030303u;
}
