// words: u8 qs[16], codes of four bits; odd: half d.
#define OFFSET 0
#define Q_MAX 127
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 4; i++)
        translate8(WORD(i), IQ4, q + i, q + 4 + i);
}
