// words: (u8 rows[4]; u32 signs)[8]; odd: half d.
#define OFFSET 0
#define Q_MAX 43
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV rows = WORD(2 * g), bits = WORD(2 * g + 1);
    *scale = half_bits(ODD_HALF) * 0.125f * convert_floatV(2u * (bits >> 28) + 1u);
    UNROLL
    for (int k = 0; k < 4; k++) {
        uintV row = BYTE(rows, k) * 2u, signs = even_signs(bits >> (uint)(7 * k) & 127u);
        q[2 * k] = negate4(GATHER(src.grid, row), signs);
        q[2 * k + 1] = negate4(GATHER(src.grid, row + 1u), signs >> 4);
    }
}
