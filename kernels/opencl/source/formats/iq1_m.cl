// words: u8 rows[32]; u8 (high bits 3, minus 1)[16 * 2 nibbles]; u16 (scale 3 bits * 4, d 4 bits)[4].
// The weights are eight times what the grid says, plus or minus one; its numbers are 9 more than that.
#define OFFSET 10
#define Q_MAX 19

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV first = WORD(12), second = WORD(13), rows = WORD(g);
    uintV bits = (first >> 12 & 15u) | (first >> 28) << 4;
    bits |= (second >> 12 & 15u) << 8 | (second >> 28) << 12;
    floatV d = half_bits(bits) * 0.125f;
    uintV scales = (g < 4 ? first : second) >> (uint)(16 * (g / 2 % 2) + 6 * (g % 2));
    uintV high = WORD(8 + g / 2) >> (uint)(16 * (g % 2));
    UNROLL
    for (int j = 0; j < 2; j++)
        scale[j] = d * convert_floatV(2u * (scales >> (uint)(3 * j) & 7u) + 1u);
    UNROLL
    for (int k = 0; k < 4; k++) {
        uintV nibble = high >> (uint)(4 * k) & 15u;
        uintV plus = (1u - (nibble >> 3)) * 0x02020202u;
        uintV row = (BYTE(rows, k) | (nibble & 7u) << 8) * 2u;
        q[2 * k] = GATHER(src.grid, row) + plus;
        q[2 * k + 1] = GATHER(src.grid, row + 1u) + plus;
    }
}
