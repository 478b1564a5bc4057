// words: half d, dmin; u8 scales[12]; u8 high[32]; u8 qs[128].
#define OFFSET 0
#define Q_MAX 31

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    k_scales(src, g, scale, low);
    UNROLL
    for (int i = 0; i < 8; i++) {
        uintV bits = WORD(12 + g / 2 * 8 + i) >> (uint)(4 * (g % 2)) & 0x0f0f0f0fu;
        q[i] = bits | (WORD(4 + i) >> (uint)g & 0x01010101u) << 4;
    }
}
