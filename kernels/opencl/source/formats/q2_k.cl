// words: u8 scales[16] (scale below, minimum above); u8 qs[64]; half d, dmin.
#define OFFSET 0
#define Q_MAX 3

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV head = WORD(20), scales = WORD(g / 2) >> (uint)(16 * (g % 2));
    floatV d = half_bits(head & 0xffffu), dmin = half_bits(head >> 16);
    UNROLL
    for (int j = 0; j < 2; j++) {
        scale[j] = d * convert_floatV(scales >> (uint)(8 * j) & 15u);
        low[j] = -dmin * convert_floatV(scales >> (uint)(8 * j + 4) & 15u);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = WORD(4 + g / 4 * 8 + i) >> (uint)(2 * (g % 4)) & 0x03030303u;
}
