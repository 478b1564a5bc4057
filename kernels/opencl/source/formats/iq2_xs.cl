// words: u16 (row 9 bits, signs 7 bits)[32]; u8 scales[8]; odd: half d.
#define OFFSET 0
#define Q_MAX 43
#define Q_SIGNED

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    floatV d = half_bits(ODD_HALF) * 0.125f;
    uintV s = BYTE(WORD(16 + g / 4), g % 4);
    scale[0] = d * convert_floatV(2u * (s & 15u) + 1u);
    scale[1] = d * convert_floatV(2u * (s >> 4) + 1u);
    UNROLL
    for (int k = 0; k < 4; k++) {
        uintV code = WORD(2 * g + k / 2) >> (uint)(16 * (k % 2)) & 0xffffu;
        uintV row = (code & 511u) * 2u, signs = even_signs(code >> 9);
        q[2 * k] = negate4(GATHER(src.grid, row), signs);
        q[2 * k + 1] = negate4(GATHER(src.grid, row + 1u), signs >> 4);
    }
}
