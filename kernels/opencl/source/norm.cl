// Norms over the parts of a row, a work-group each. weights: 1, or `heads` where each part has its
// own.

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void rms_norm(__global const int *step, __global const float *x, __global const float *weight,
              __global float *y, int size, float eps, int weights)
{
    __local float room[WG];
    int lid = get_local_id(0), whole = size / V * V;
    x += (size_t)get_group_id(0) * size;
    y += (size_t)get_group_id(0) * size;
    if (weight)
        weight += get_group_id(0) % weights * size;
    floatV squares = 0.0f;
    for (int i = V * lid; i < whole; i += V * WG) {
        floatV value = loadV(x + i);
        squares = fused(value, value, squares);
    }
    float sum = SUM_OF(squares);
    for (int i = whole + lid; i < size; i += WG)
        sum = fused(x[i], x[i], sum);
    sum = group_sum(sum, room);
    float factor = 1.0f / sqrt(sum / (float)size + eps);
    for (int i = V * lid; i < whole; i += V * WG) {
        floatV value = loadV(x + i) * factor;
        storeV(weight ? value * loadV(weight + i) : value, y + i);
    }
    for (int i = whole + lid; i < size; i += WG)
        y[i] = x[i] * factor * (weight ? weight[i] : 1.0f);
}
