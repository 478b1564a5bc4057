// words: u8 qs[16], a bit each; odd: half d.
#define OFFSET 1
#define Q_MAX 2

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    uintV bits = WORD(g);
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = spread_bits(bits >> (uint)(4 * i)) << 1;
}
