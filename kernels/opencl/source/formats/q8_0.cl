// words: i8 q[32]; odd: half d.
#define OFFSET 0
#define Q_MAX 128
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = WORD(i);
}
