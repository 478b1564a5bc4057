// words: u8 qs[48]; u8 last[4]; odd: half d.
#define OFFSET 1
#define Q_MAX 2

// Digit k in base 3 of each byte, which is a fraction of 256: two bytes in 16 bits at a time.
static inline uintV digits(uintV word, int k)
{
    uint power = k == 0 ? 1u : k == 1 ? 3u : k == 2 ? 9u : k == 3 ? 27u : 81u;
    uintV even = word & 0x00ff00ffu, odd = word >> 8 & 0x00ff00ffu;
    even = (even * power & 0x00ff00ffu) * 3u >> 8 & 0x00ff00ffu;
    odd = (odd * power & 0x00ff00ffu) * 3u >> 8 & 0x00ff00ffu;
    return even | odd << 8;
}

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    *scale = half_bits(ODD_HALF);
    UNROLL
    for (int i = 0; i < 8; i++) {
        // Digits of 32 bytes, then of 16 (five of them), then of 4.
        int n = 8 * g + i, rest = n - 40, last = n - 60;
        int word = n < 40 ? i : n < 60 ? 8 + rest % 4 : 12;
        int k = n < 40 ? g : n < 60 ? rest / 4 : last;
        q[i] = digits(WORD(word), k);
    }
}
