// words: u8 rows[32]; u16 (high bits 3 a row, scale 3 bits, minus)[8]; odd: half d.
// The weights are eight times what the grid says, plus or minus one; its numbers are 9 more than that.
#define OFFSET 10
#define Q_MAX 19

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV rows = WORD(g), high = WORD(8 + g / 2) >> (uint)(16 * (g % 2)) & 0xffffu;
    *scale = half_bits(ODD_HALF) * 0.125f * convert_floatV(2u * (high >> 12 & 7u) + 1u);
    uintV plus = (1u - (high >> 15)) * 0x02020202u;
    UNROLL
    for (int k = 0; k < 4; k++) {
        uintV row = (BYTE(rows, k) | (high >> (uint)(3 * k) & 7u) << 8) * 2u;
        q[2 * k] = GATHER(src.grid, row) + plus;
        q[2 * k + 1] = GATHER(src.grid, row + 1u) + plus;
    }
}
