// words: u8 high[4]; u8 low[16]; odd: half d.
#define OFFSET 16
#define Q_MAX 31

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    uintV high = WORD(0);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uintV word = WORD(1 + i);
        q[i] = (word & 0x0f0f0f0fu) | spread_bits(high >> (uint)(4 * i)) << 4;
        q[4 + i] = (word >> 4 & 0x0f0f0f0fu) | spread_bits(high >> (uint)(16 + 4 * i)) << 4;
    }
}
