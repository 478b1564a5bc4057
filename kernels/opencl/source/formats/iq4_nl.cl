// words: u8 qs[16], codes of four bits; odd: half d.
#define OFFSET 0
#define Q_MAX 127
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uintV word = WORD(i);
        q[i] = translate4(word, IQ4);
        q[4 + i] = translate4(word >> 4, IQ4);
    }
}
