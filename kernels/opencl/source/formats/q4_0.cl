// words: u8 low[16]; odd: half d.
#define OFFSET 8
#define Q_MAX 15

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uintV word = WORD(i);
        q[i] = word & 0x0f0f0f0fu;
        q[4 + i] = word >> 4 & 0x0f0f0f0fu;
    }
}
