// Choosing experts and adding up what they say; their products are in matmul.cl.

#define SOFTMAX 0
#define SOFTMAX_SELECTED 1
#define SIGMOID 2

static inline float softmax_sum(__global const float *x, int count, float *top)
{
    float sum = 0.0f;
    *top = -INFINITY;
    for (int i = 0; i < count; i++)
        *top = fmax(*top, x[i]);
    for (int i = 0; i < count; i++)
        sum += exp(x[i] - *top);
    return sum;
}

// One work-item a row.
__kernel void moe_route(__global const int *step, __global const float *scores,
                        __global const float *bias, __global float *out, int experts, int top_k,
                        int gating, int normalize, float factor)
{
    int row = get_global_id(0);
    if (row >= step[NUM_TOKENS])
        return;
    scores += (size_t)row * experts;
    __global float *chosen = out + (size_t)row * 2 * top_k, *weights = chosen + top_k;
    float top = 0.0f, sum = 1.0f;
    if (gating == SOFTMAX)
        sum = softmax_sum(scores, experts, &top);
    for (int rank = 0; rank < top_k; rank++) {
        int best = -1;
        float most = -INFINITY, weight = 0.0f;
        for (int e = 0; e < experts; e++) {
            bool is_taken = false;
            for (int r = 0; r < rank; r++)
                is_taken = is_taken || (int)chosen[r] == e;
            float value = scores[e];
            if (gating == SOFTMAX)
                value = exp(value - top) / sum;
            if (gating == SIGMOID)
                value = sigmoid(value);
            float preference = value + (bias ? bias[e] : 0.0f);
            if (!is_taken && (best < 0 || preference > most)) {
                best = e;
                most = preference;
                weight = value;
            }
        }
        chosen[rank] = (float)best;
        weights[rank] = weight;
    }
    if (gating == SOFTMAX_SELECTED) {
        sum = softmax_sum(weights, top_k, &top);
        for (int r = 0; r < top_k; r++)
            weights[r] = exp(weights[r] - top) / sum;
    }
    sum = 0.0f;
    for (int r = 0; r < top_k; r++)
        sum += weights[r];
    for (int r = 0; r < top_k; r++)
        weights[r] = (normalize ? weights[r] / sum : weights[r]) * factor;
}

__kernel void moe_combine(__global const int *step, __global const float *x,
                          __global const float *routing, __global float *y, int width, int top_k)
{
    size_t i = get_global_id(0);
    if (i >= (size_t)step[NUM_TOKENS] * width)
        return;
    size_t row = i / width;
    x += row * top_k * width + i % width;
    routing += row * 2 * top_k + top_k;
    float sum = routing[0] * x[0];
    for (int r = 1; r < top_k; r++)
        sum = fma(routing[r], x[r * width], sum);
    y[i] = sum;
}
