// Norms over the parts of a row, a work-group each. weights: rows of weight and bias: 1, or as many
// as a row has parts. residual: is added to what is written, or null. records: of the same
// (record.cl), or null.

// Sum over a part of (x - shift)^2, or of x where `shift` is null.
static inline float part_sum(__global const float *x, int size, const float *shift,
                             __local float *room)
{
    int lid = get_local_id(0), whole = size / V * V;
    floatV sums = 0.0f;
    for (int i = V * lid; i < whole; i += V * WG) {
        floatV value = loadV(x + i);
        if (shift) {
            value -= *shift;
            sums = fused(value, value, sums);
        } else
            sums += value;
    }
    float sum = SUM_OF(sums);
    for (int i = whole + lid; i < size; i += WG) {
        float value = shift ? x[i] - *shift : x[i];
        sum = shift ? fused(value, value, sum) : sum + value;
    }
    return group_sum(sum, room);
}

// (x - shift) * factor * weight + bias + residual.
static inline void write_part(__global const float *x, int size, float shift, float factor,
                              __global const float *weight, __global const float *bias,
                              __global const float *residual, __global float *y,
                              __global uint *records)
{
    int lid = get_local_id(0);
    for (int i = V * lid; i < size; i += V * WG) {
        int count = smaller(size - i, V);
        floatV value = (load_head(count, x + i) - shift) * factor;
        if (weight)
            value *= load_head(count, weight + i);
        if (bias)
            value += load_head(count, bias + i);
        if (residual)
            value += load_head(count, residual + i);
        store_head(value, count, y + i);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);  // in no branch: some drivers get those wrong
    if (records)
        for (int b = lid; b < size / 32; b += WG)
            quantize_block(y + 32 * b, records + b * RECORD);
}

static inline void rms_norm_part(__global const float *x, __global const float *weight,
                                 __global const float *residual, __global float *y,
                                 __global uint *records, int size, float eps, int weights,
                                 __local float *room)
{
    size_t part = get_group_id(0);
    float shift = 0.0f;
    x += part * size;
    float factor = 1.0f / sqrt(part_sum(x, size, &shift, room) / (float)size + eps);
    write_part(x, size, 0.0f, factor, weight ? weight + part % weights * size : 0, 0,
               residual ? residual + part * size : 0, y + part * size,
               records ? records + part * (size / 32) * RECORD : 0);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void rms_norm(__global const int *step, __global const float *x, __global const float *weight,
              __global const float *residual, __global float *y, __global uint *records, int size,
              float eps, int weights)
{
    __local float room[WG];
    rms_norm_part(x, weight, residual, y, records, size, eps, weights, room);
}

// The norm of each of `heads` parts goes to `normed`, and rotated (rotate.cl) to y.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void rms_norm_rope(__global const float *x, __global const float *weight,
                   __global const float *table, __global float *normed, __global float *y,
                   int size, float eps, int weights, int heads, int pairs, int interleaved)
{
    __local float room[WG];
    rms_norm_part(x, weight, 0, normed, 0, size, eps, weights, room);
    size_t part = get_group_id(0);
    table += part / heads * 2 * pairs;
    for (int d = get_local_id(0); d < size; d += WG)
        y[part * size + d] = rotated(normed + part * size, table, d, pairs, interleaved);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void layer_norm(__global const int *step, __global const float *x, __global const float *weight,
                __global const float *bias, __global float *y, __global uint *records, int size,
                float eps, int weights, int biases)
{
    __local float room[WG];
    if (records)
        records += (size_t)get_group_id(0) * (size / 32) * RECORD;
    x += (size_t)get_group_id(0) * size;
    if (weight)
        weight += get_group_id(0) % weights * size;
    if (bias)
        bias += get_group_id(0) % biases * size;
    float mean = part_sum(x, size, 0, room) / (float)size;
    float variance = part_sum(x, size, &mean, room) / (float)size;
    write_part(x, size, mean, 1.0f / sqrt(variance + eps), weight, bias, 0,
               y + (size_t)get_group_id(0) * size, records);
}

// max(x - mean - deviations * standard deviation, 0) of a row.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void gaussian_top_k(__global const int *step, __global const float *x, __global float *y, int size,
                    float deviations)
{
    __local float room[WG];
    x += (size_t)get_group_id(0) * size;
    y += (size_t)get_group_id(0) * size;
    float mean = part_sum(x, size, 0, room) / (float)size;
    float bound = deviations * sqrt(part_sum(x, size, &mean, room) / (float)size);
    for (int i = get_local_id(0); i < size; i += WG)
        y[i] = fmax((x[i] - mean) - bound, 0.0f);
}
