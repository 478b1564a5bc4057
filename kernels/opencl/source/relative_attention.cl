// Attention over the rows of a step, with a bias for each head and distance. A work-item does one
// head of one row, its keys in order: first their largest score, then the sum.

static inline float score_of(__global const float *q, __global const float *k, int head_dim,
                             float scale, float bias)
{
    float sum = 0.0f;
    for (int d = 0; d < head_dim; d++)
        sum = fused(q[d], k[d], sum);
    return fused(sum, scale, bias);
}

// biases: (heads, 2 * reach + 1), `reach` the column of the row itself. row_seqs: which sequence a
// row is of.
__kernel void relative_attention(__global const int *step, __global const int *row_seqs,
                                 __global const int *query_start, __global const float *q,
                                 __global const float *k, __global const float *v,
                                 __global const float *biases, __global float *y, int heads,
                                 int kv_heads, int head_dim, int value_dim, int reach, float scale)
{
    int row = get_global_id(0) / heads, head = get_global_id(0) % heads;
    if (row >= step[NUM_TOKENS])
        return;
    int from = query_start[row_seqs[row]], to = query_start[row_seqs[row] + 1];
    int kv_head = head / (heads / kv_heads);
    q += ((size_t)row * heads + head) * head_dim;
    y += ((size_t)row * heads + head) * value_dim;
    biases += head * (2 * reach + 1) + reach;
    k += kv_head * head_dim;
    v += kv_head * value_dim;
    float highest = -INFINITY, total = 0.0f;
    for (int d = 0; d < value_dim; d++)
        y[d] = 0.0f;
    for (int at = from; at < to; at++) {
        float bias = biases[clamp(at - row, -reach, reach)];
        highest = larger(highest, score_of(q, k + (size_t)at * kv_heads * head_dim, head_dim,
                                           scale, bias));
    }
    for (int at = from; at < to; at++) {
        float bias = biases[clamp(at - row, -reach, reach)];
        float weight = exp(score_of(q, k + (size_t)at * kv_heads * head_dim, head_dim, scale, bias)
                           - highest);
        __global const float *value = v + (size_t)at * kv_heads * value_dim;
        total += weight;
        for (int d = 0; d < value_dim; d++)
            y[d] = fused(weight, value[d], y[d]);
    }
    for (int d = 0; d < value_dim; d++)
        y[d] /= total;
}
