// What products with a matrix end with: scale and bias, either of which may be null.

static inline floatV finished(floatV value, __global const float *bias,
                              __global const float *scale, int count)
{
    if (scale)
        value *= *scale;
    if (bias)
        value += load_head(count, bias);
    return value;
}
