// words: half d, m; u8 low[16].
#define OFFSET 0
#define Q_MAX 15

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV head = WORD(0);
    *scale = half_bits(head & 0xffffu);
    *low = half_bits(head >> 16);
    UNROLL
    for (int i = 0; i < 4; i++) {
        uintV word = WORD(1 + i);
        q[i] = word & 0x0f0f0f0fu;
        q[4 + i] = word >> 4 & 0x0f0f0f0fu;
    }
}
