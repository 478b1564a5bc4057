// words: u8 d[4]; u8 qs[4][8], codes of four bits.
#define OFFSET 0
#define Q_MAX 12
#define Q_SIGNED

// Half of an unsigned float of four exponent and three mantissa bits; its NaN is 0.
static inline floatV ue4m3(uintV code)
{
    uintV exponent = code >> 3 & 15u, mantissa = code & 7u;
    floatV small = convert_floatV(mantissa) * 0x1p-10f;
    floatV normal = as_floatV(exponent + 119u << 23 | mantissa << 20);
    floatV size = exponent == 0u ? small : normal;
    return code == 127u ? (floatV)(0.0f) : size;
}

static inline void unpack(Source src, int g, uintV *q, floatV *scale, floatV *low)
{
    uintV codes = WORD(0);
    UNROLL
    for (int j = 0; j < 2; j++) {
        int n = 2 * g + j;
        scale[j] = ue4m3(BYTE(codes, n));
        UNROLL
        for (int i = 0; i < 2; i++) {
            uintV word = WORD(1 + 2 * n + i);
            q[4 * j + i] = translate4(word, E2M1);
            q[4 * j + 2 + i] = translate4(word >> 4, E2M1);
        }
    }
}
