// words: u8 qs[16], codes of four bits; odd: u8 e, the exponent of a power of two.
#define OFFSET 12
#define Q_MAX 24

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV e = ODD_BYTE;
    *scale = as_floatV(e < 2u ? (uintV)(0x00200000u) << e : (e - 1u) << 23);
    UNROLL
    for (int i = 0; i < 4; i++)
        e2m1_and_12(WORD(i), E2M1_AND_12, q + i, q + 4 + i);
}
