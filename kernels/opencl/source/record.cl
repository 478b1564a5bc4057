// Activations as int8: 32 values x become a record of RECORD words: the scale d = max|x| / 127,
// the sums of the first and the last 16 integers, one word left free, then the integers. They are
// packed four to a word where the device multiplies those at once; elsewhere as pairs of 16 bits,
// values 0 and 2 of four in one word and 1 and 3 in the next.

#define ROUND 12582912.0f  // added and taken away: the nearest whole number, even where two are
#define TINY 1e-30f  // blocks below it become zero: 127 / TINY is still a float

static inline uint pair(int low, int high)
{
    return (uint)low & 0xffffu | (uint)high << 16;
}

static inline void quantize_block(__global const float *x, __global uint *out)
{
    float top = 0.0f;
    for (int i = 0; i < 32; i++)
        top = larger(top, fabs(x[i]));
    float inverse = top > TINY ? 127.0f / top : 0.0f;
    int sums[2] = {0, 0};
    for (int i = 0; i < 8; i++) {
        int q[4];
        for (int j = 0; j < 4; j++) {
            q[j] = (int)(x[4 * i + j] * inverse + ROUND - ROUND);
            sums[i / 4] += q[j];
        }
#if defined(HAS_DOT4) || defined(HAS_BYTE_PAIRS)
        out[4 + i] = pair(q[0] & 255 | (q[1] & 255) << 8, q[2] & 255 | (q[3] & 255) << 8);
#else
        out[4 + 2 * i] = pair(q[0], q[2]);
        out[5 + 2 * i] = pair(q[1], q[3]);
#endif
    }
    out[0] = as_uint(top > TINY ? top / 127.0f : 0.0f);
    out[1] = as_uint(sums[0]);
    out[2] = as_uint(sums[1]);
    out[3] = 0u;
}
