// Rotary positions: one number of a head from a table of cosines and sines (rows.cl).

// Number d of a head at x, rotated. interleaved: pairs are (2i, 2i + 1), else (i, i + pairs). table:
// of the row.
static inline float rotated(__global const float *x, __global const float *table, int d, int pairs,
                            int interleaved)
{
    if (d >= 2 * pairs)
        return x[d];
    int pair = interleaved ? d / 2 : d % pairs;
    int is_second = interleaved ? d % 2 : d / pairs;
    int distance = interleaved ? 1 : pairs;
    float cosine = table[pair], sine = table[pairs + pair];
    return is_second ? fused(x[d - distance], sine, x[d] * cosine)
                     : fused(-x[d + distance], sine, x[d] * cosine);
}
