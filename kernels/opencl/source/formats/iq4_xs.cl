// words: half d; u16 scales_h; u8 scales_l[4]; u8 qs[8][16], codes of four bits.
#define OFFSET 0
#define Q_MAX 127
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV head = WORD(0);
    uintV s = (WORD(1) >> (uint)(4 * g) & 15u) | (head >> (uint)(16 + 2 * g) & 3u) << 4;
    *scale = half_bits(head & 0xffffu) * convert_floatV(convert_intV(s) - 32);
    UNROLL
    for (int i = 0; i < 4; i++)
        translate8(WORD(2 + 4 * g + i), IQ4, q + i, q + 4 + i);
}
