// words: u8 high[32]; u8 qs[64]; u8 scales[12]; odd: half d.
#define OFFSET 4
#define Q_MAX 7

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    floatV d = half_bits(ODD_HALF);
    uintV pairs = WORD(26);
    UNROLL
    for (int j = 0; j < 2; j++) {
        int n = 2 * g + j;
        uintV below = WORD(24 + n % 8 / 4) >> (uint)(8 * (n % 4) + 4 * (n / 8)) & 15u;
        uintV above = pairs >> (uint)(8 * (n % 4) + 2 * (n / 4)) & 3u;
        scale[j] = d * convert_floatV(convert_intV(below | above << 4) - 32);
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        uintV bits = WORD(8 + g / 4 * 8 + i) >> (uint)(2 * (g % 4)) & 0x03030303u;
        q[i] = bits | (WORD(i) >> (uint)g & 0x01010101u) << 2;
    }
}
