// words: u8 rows[32]; u8 signs[32]; u8 high[8]; u8 scales[8]; odd: half d.
#define OFFSET 0
#define Q_MAX 43
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    floatV d = half_bits(ODD_HALF) * 0.125f;
    uintV s = BYTE(WORD(18 + g / 4), g % 4), high = BYTE(WORD(16 + g / 4), g % 4);
    uintV rows = WORD(g), bits = WORD(8 + g);
    scale[0] = d * convert_floatV(2u * (s & 15u) + 1u);
    scale[1] = d * convert_floatV(2u * (s >> 4) + 1u);
    UNROLL
    for (int k = 0; k < 4; k++) {
        uintV row = (BYTE(rows, k) | (high >> (uint)(2 * k) & 3u) << 8) * 2u;
        q[2 * k] = negate4(GATHER(src.grid, row), BYTE(bits, k));
        q[2 * k + 1] = negate4(GATHER(src.grid, row + 1u), BYTE(bits, k) >> 4);
    }
}
