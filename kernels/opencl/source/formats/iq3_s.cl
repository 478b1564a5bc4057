// words: u8 rows[64]; u8 high[8]; u8 signs[32]; u8 scales[4]; odd: half d.
#define OFFSET 0
#define Q_MAX 15
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV high = BYTE(WORD(16 + g / 4), g % 4), bits = WORD(18 + g);
    uintV s = WORD(26) >> (uint)(4 * g) & 15u;
    *scale = half_bits(ODD_HALF) * convert_floatV(2u * s + 1u);
    UNROLL
    for (int i = 0; i < 8; i++) {
        uintV row = BYTE(WORD(2 * g + i / 4), i % 4) | (high >> (uint)i & 1u) << 8;
        q[i] = negate4(GATHER(src.grid, row), bits >> (uint)(4 * i));
    }
}
