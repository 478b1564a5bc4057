// Rows of activations as records (record.cl), and what those leave.

__kernel void quantize(__global const int *step, __global const float *x, __global uint *out,
                       int count_word, int width)
{
    int blocks = width / 32, item = get_global_id(0);
    if (item < step[count_word] * blocks)
        quantize_block(x + (size_t)item * 32, out + (size_t)item * RECORD);
}

// What a record does not hold of 32 values.
__kernel void remainder_of(__global const int *step, __global const float *x, __global float *y,
                        int count_word, int width)
{
    int blocks = width / 32, item = get_global_id(0);
    if (item >= step[count_word] * blocks)
        return;
    x += (size_t)item * 32;
    y += (size_t)item * 32;
    float top = 0.0f;
    for (int i = 0; i < 32; i++)
        top = larger(top, fabs(x[i]));
    float inverse = top > TINY ? 127.0f / top : 0.0f, scale = top > TINY ? top / 127.0f : 0.0f;
    for (int i = 0; i < 32; i++)
        y[i] = fused(-scale, x[i] * inverse + ROUND - ROUND, x[i]);
}
