// Ops that treat each number, or each pair of numbers, alone.

#define ITEM(per_row) \
    size_t i = get_global_id(0); \
    if (i >= (size_t)step[count_word] * (size_t)(per_row)) \
        return

__kernel void softplus(__global const int *step, __global const float *x,
                       __global const float *bias, __global float *y, int count_word, int width)
{
    ITEM(width);
    float value = bias ? x[i] + bias[i % width] : x[i];
    y[i] = larger(value, 0.0f) + log1p(exp(-fabs(value)));
}

// Columns first to first + width of each of `parts` equal parts of a row of x.
__kernel void columns(__global const int *step, __global const float *x, __global float *y,
                      int count_word, int part_width, int first, int parts, int width)
{
    ITEM(parts * width);
    y[i] = x[i / width * part_width + first + i % width];
}

__kernel void select_outputs(__global const int *step, __global const int *rows,
                             __global const float *x, __global float *y, int count_word, int width)
{
    ITEM(width);
    y[i] = x[(size_t)rows[i / width] * width + i % width];
}

// cos and sin of position * frequency. The product's rounding error and 2 pi in three parts keep
// the angle right far from zero.
__kernel void rope_table(__global const int *step, __global const int *positions,
                         __global const float *frequencies, __global float *out, int count_word,
                         int pairs, float magnitude)
{
    ITEM(pairs);
    int row = i / pairs, pair = i % pairs;
    float p = (float)positions[row], f = frequencies[pair];
    float angle = p * f, error = fused(p, f, -angle);
    float turns = rint(angle * 0.15915494f);
    float rest = fused(-turns, 6.28125f, angle);
    rest = fused(-turns, 0.00193530717f, rest);
    rest = fused(-turns, 1.02531317e-11f, rest) + error;
    out[(size_t)row * 2 * pairs + pair] = cos(rest) * magnitude;
    out[(size_t)row * 2 * pairs + pairs + pair] = sin(rest) * magnitude;
}

// A work-item for each number of x.
__kernel void rope(__global const int *step, __global const float *x, __global const float *table,
                   __global float *y, int count_word, int heads, int head_dim, int pairs,
                   int interleaved)
{
    ITEM(heads * head_dim);
    int d = i % head_dim, row = i / (heads * head_dim);
    y[i] = rotated(x + (i - d), table + (size_t)row * 2 * pairs, d, pairs, interleaved);
}

__kernel void position_scale(__global const int *step, __global const int *positions,
                             __global const float *x, __global float *y, int count_word, int width,
                             int length, int offset, float factor)
{
    ITEM(width);
    long whole = ((long)positions[i / width] + offset) / length;
    y[i] = x[i] * fused(factor, log1p((float)whole), 1.0f);
}

// Part h of a, then part h of b, for each of `heads` parts.
__kernel void concat_heads(__global const int *step, __global const float *a,
                           __global const float *b, __global float *y, int count_word, int a_dim,
                           int b_dim, int heads)
{
    ITEM(heads * (a_dim + b_dim));
    size_t part = i / (a_dim + b_dim);
    int d = i % (a_dim + b_dim);
    y[i] = d < a_dim ? a[part * a_dim + d] : b[part * b_dim + d - a_dim];
}

// Each head of `size` numbers times its own factor.
__kernel void scale_heads(__global const int *step, __global const float *x,
                          __global const float *factors, __global float *y, int count_word,
                          int heads, int size)
{
    ITEM(heads * size);
    y[i] = x[i] * factors[i / size];
}

// x + scale * change by the scale that the row's sequence has for one adapter; rows: the tokens of
// output rows, or none where rows are tokens. change_rows 0: one row of changes for all.
__kernel void add_scaled(__global const int *step, __global const float *scales,
                         __global const int *rows, __global const float *x,
                         __global const float *change, __global float *y, int count_word,
                         int width, int change_rows, int adapter)
{
    ITEM(width);
    size_t row = i / width, token = rows ? (size_t)rows[row] : row;
    float scale = scales[token * step[4] + adapter];
    y[i] = scale == 0.0f ? x[i] : fused(scale, change[row * change_rows * width + i % width], x[i]);
}

__kernel void multiply_columns(__global const int *step, __global const float *x,
                               __global const float *factors, __global float *y, int count_word,
                               int width)
{
    ITEM(width);
    y[i] = x[i] * factors[i % width];
}

__kernel void add_columns(__global const int *step, __global const float *x,
                          __global const float *terms, __global float *y, int count_word, int width)
{
    ITEM(width);
    y[i] = x[i] + terms[i % width];
}
