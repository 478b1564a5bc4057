// Convolutions and recurrences. A work-item takes one channel, or one column of a state, of one
// sequence through the rows of the step in order. States are float, `stored` numbers from row to
// row. A sequence at position 0 starts from zero.

#define SEQUENCE_ITEM(per_sequence) \
    int item = get_global_id(0) % (per_sequence), seq = get_global_id(0) / (per_sequence); \
    if (seq >= step[NUM_SEQS]) \
        return; \
    int from = query_start[seq], to = query_start[seq + 1]; \
    bool is_new = positions[from] == 0

// taps: (channels, kernel). State: the last kernel - 1 rows of x.
__kernel void short_convolution(__global const int *step, __global const int *query_start,
                                __global const int *positions, __global const int *state_slots,
                                __global const float *x, __global const float *taps,
                                __global const float *bias, __global float *y,
                                __global float *states, int channels, int kernel_size, int stored,
                                int silu)
{
    SEQUENCE_ITEM(channels);
    int past = kernel_size - 1;
    __global float *state = states + (size_t)state_slots[seq] * past * stored + item;
    x += item;
    y += item;
    taps += item * kernel_size;
    if (is_new)
        for (int i = 0; i < past; i++)
            state[i * stored] = 0.0f;
    for (int row = from; row < to; row++) {
        float sum = 0.0f;
        for (int j = 0; j < kernel_size; j++) {
            int source = row - past + j;
            float value = source >= from ? x[(size_t)source * channels]
                                         : state[(source - from + past) * stored];
            sum = fused(value, taps[j], sum);
        }
        if (bias)
            sum += bias[item];
        y[(size_t)row * channels] = silu ? sum * sigmoid(sum) : sum;
    }
    for (int i = 0; i < past; i++) {
        int source = to - past + i;
        state[i * stored] = source >= from ? x[(size_t)source * channels]
                                           : state[(source - from + past) * stored];
    }
}

// a: (heads, a_width), a_width 1 or state_size. State: (heads * head_dim, state_size).
__kernel void selective_scan(__global const int *step, __global const int *query_start,
                             __global const int *positions, __global const int *state_slots,
                             __global const float *x, __global const float *dt,
                             __global const float *b, __global const float *c,
                             __global const float *a, __global const float *d, __global float *y,
                             __global float *states, int heads, int head_dim, int groups,
                             int state_size, int stored, int a_width)
{
    int width = heads * head_dim;
    SEQUENCE_ITEM(width);
    int head = item / head_dim, group = head / (heads / groups);
    __global float *state = states + ((size_t)state_slots[seq] * width + item) * stored;
    a += head * a_width;
    if (is_new)
        for (int s = 0; s < state_size; s++)
            state[s] = 0.0f;
    for (int row = from; row < to; row++) {
        float delta = dt[(size_t)row * heads + head], input = x[(size_t)row * width + item];
        size_t at = ((size_t)row * groups + group) * state_size;
        float sum = 0.0f;
        for (int s = 0; s < state_size; s++) {
            float decay = exp(delta * a[a_width == 1 ? 0 : s]);
            float h = fused(decay, state[s], delta * input * b[at + s]);
            state[s] = h;
            sum = fused(h, c[at + s], sum);
        }
        y[(size_t)row * width + item] = fused(d[head], input, sum);
    }
}

// dt: (rows, heads * decays), decays 1 or key_dim. State: (heads * key_dim, value_dim).
__kernel void delta_rule(__global const int *step, __global const int *query_start,
                         __global const int *positions, __global const int *state_slots,
                         __global const float *q, __global const float *k, __global const float *v,
                         __global const float *dt, __global const float *beta,
                         __global const float *a, __global float *y, __global float *states,
                         int heads, int key_heads, int key_dim, int value_dim, int stored,
                         int decays, int tiled)
{
    SEQUENCE_ITEM(heads * value_dim);
    int head = item / value_dim;
    int key_head = tiled ? head % key_heads : head / (heads / key_heads);
    __global float *state = states + ((size_t)state_slots[seq] * heads + head) * key_dim * stored +
                            item % value_dim;
    if (is_new)
        for (int i = 0; i < key_dim; i++)
            state[i * stored] = 0.0f;
    for (int row = from; row < to; row++) {
        __global const float *key = k + ((size_t)row * key_heads + key_head) * key_dim;
        __global const float *query = q + ((size_t)row * key_heads + key_head) * key_dim;
        __global const float *time = dt + ((size_t)row * heads + head) * decays;
        float known = 0.0f, sum = 0.0f;
        for (int i = 0; i < key_dim; i++) {
            float kept = exp(a[head] * time[decays == 1 ? 0 : i]) * state[i * stored];
            state[i * stored] = kept;
            known = fused(key[i], kept, known);
        }
        float error = v[(size_t)row * heads * value_dim + item] - known;
        error *= sigmoid(beta[(size_t)row * heads + head]);
        for (int i = 0; i < key_dim; i++) {
            float corrected = fused(key[i], error, state[i * stored]);
            state[i * stored] = corrected;
            sum = fused(query[i], corrected, sum);
        }
        y[(size_t)row * heads * value_dim + item] = sum;
    }
}

// All (rows, heads * head_dim). State: (heads * head_dim, head_dim). bonus: (heads * head_dim) or null.
__kernel void linear_attention(__global const int *step, __global const int *query_start,
                               __global const int *positions, __global const int *state_slots,
                               __global const float *r, __global const float *decay,
                               __global const float *k, __global const float *v,
                               __global const float *bonus, __global float *y,
                               __global float *states, int heads, int head_dim, int stored)
{
    int width = heads * head_dim;
    SEQUENCE_ITEM(width);
    int first = item / head_dim * head_dim;
    __global float *state = states + ((size_t)state_slots[seq] * width + first) * stored +
                            item % head_dim;
    if (is_new)
        for (int i = 0; i < head_dim; i++)
            state[i * stored] = 0.0f;
    for (int row = from; row < to; row++) {
        size_t at = (size_t)row * width + first;
        float value = v[(size_t)row * width + item], sum = 0.0f;
        for (int i = 0; i < head_dim; i++) {
            float before = state[i * stored], taken = k[at + i] * value;
            float after = fma(before, decay[at + i], taken);
            state[i * stored] = after;
            float seen = bonus ? fma(taken, bonus[first + i], before) : after;
            sum = fma(r[at + i], seen, sum);
        }
        y[(size_t)row * width + item] = sum;
    }
}

// All (rows, heads * head_dim). State: (heads * head_dim, head_dim).
__kernel void wkv7(__global const int *step, __global const int *query_start,
                   __global const int *positions, __global const int *state_slots,
                   __global const float *r, __global const float *w, __global const float *k,
                   __global const float *v, __global const float *a, __global const float *b,
                   __global float *y, __global float *states, int heads, int head_dim, int stored)
{
    int width = heads * head_dim;
    SEQUENCE_ITEM(width);
    int head = item / head_dim;
    __global float *state = states + ((size_t)state_slots[seq] * width + head * head_dim) * stored +
                            item % head_dim;
    if (is_new)
        for (int i = 0; i < head_dim; i++)
            state[i * stored] = 0.0f;
    for (int row = from; row < to; row++) {
        size_t at = (size_t)row * width + head * head_dim;
        float value = v[(size_t)row * width + item], seen = 0.0f, sum = 0.0f;
        for (int i = 0; i < head_dim; i++)
            seen = fma(a[at + i], state[i * stored], seen);
        for (int i = 0; i < head_dim; i++) {
            float kept = exp(-0.60653066f * sigmoid(w[at + i])) * state[i * stored];
            float s = fma(k[at + i], value, fma(b[at + i], seen, kept));
            state[i * stored] = s;
            sum = fma(r[at + i], s, sum);
        }
        y[(size_t)row * width + item] = sum;
    }
}
