// words: u8 rows[64]; u32 signs[8]; odd: half d.
#define OFFSET 0
#define Q_MAX 62
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV bits = WORD(16 + g);
    *scale = half_bits(ODD_HALF) * 0.25f * convert_floatV(2u * (bits >> 28) + 1u);
    UNROLL
    for (int i = 0; i < 8; i++) {
        uintV signs = even_signs(bits >> (uint)(7 * (i / 2)) & 127u);
        uintV row = GATHER(src.grid, BYTE(WORD(2 * g + i / 4), i % 4));
        q[i] = negate4(row, signs >> (uint)(4 * (i % 2)));
    }
}
