// words: u8 d[4]; u8 qs[4][8], codes of four bits.
#define OFFSET 12
#define Q_MAX 24

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
        for (int i = 0; i < 2; i++)
            e2m1_and_12(WORD(1 + 2 * n + i), E2M1_AND_12, q + 4 * j + i, q + 4 * j + 2 + i);
    }
}
