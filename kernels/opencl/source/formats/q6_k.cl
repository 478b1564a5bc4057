// words: u8 low[128]; u8 high[64]; i8 scales[16]; odd: half d.
#define OFFSET 32
#define Q_MAX 63

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    int h = g / 4, p = g % 4;
    floatV d = half_bits(ODD_HALF);
    uintV scales = WORD(48 + g / 2) >> (uint)(16 * (g % 2));
    UNROLL
    for (int j = 0; j < 2; j++)
        scale[j] = d * convert_floatV(as_intV(scales << (uint)(24 - 8 * j)) >> 24);
    UNROLL
    for (int i = 0; i < 8; i++) {
        uintV bits = WORD(16 * h + 8 * (p % 2) + i) >> (uint)(4 * (p / 2)) & 0x0f0f0f0fu;
        q[i] = bits | (WORD(32 + 8 * h + i) >> (uint)(2 * p) & 0x03030303u) << 4;
    }
}
