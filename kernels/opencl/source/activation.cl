// Activations, alone or as a gate. A work-item does NUMBERS numbers, V at once; rows lie without
// gaps, so that V numbers may belong to two of them. Where it does 32 of them, rows are whole
// multiples of that, and it also writes their record (record.cl).

#define ITEMS(per_row) \
    size_t total = (size_t)step[count_word] * (per_row), i = V * get_global_id(0); \
    if (i >= total) \
        return; \
    int count = smaller(total - i, (size_t)V)

#if NUMBERS == 32
#define EACH(per_row) \
    size_t total = (size_t)step[count_word] * (per_row), begin = 32 * get_global_id(0); \
    if (begin >= total) \
        return; \
    int count = V; \
    for (size_t i = begin; i < begin + 32; i += V)
#define RECORD_IT quantize_block(y + begin, records + begin / 32 * RECORD)
#else
#define EACH(per_row) ITEMS(per_row);
#define RECORD_IT
#endif

static inline floatV logistic(floatV x)
{
    return 1.0f / (1.0f + exp(-x));
}

static inline floatV silu(floatV x)
{
    return x * logistic(x);
}

static inline floatV gelu(floatV x)
{
    return 0.5f * x * erfc(-x * 0.70710678f);
}

static inline floatV gelu_tanh(floatV x)
{
    floatV inner = 0.79788456f * (x + 0.044715f * x * x * x);
    // (1 + tanh(u)) / 2 without its cancellation far below 0.
    return x < 10.0f ? x / (1.0f + exp(-2.0f * inner)) : x;
}

static inline floatV gelu_quick(floatV x)
{
    return x * logistic(1.702f * x);
}

static inline floatV relu(floatV x)
{
    return x > 0.0f ? x : (floatV)(0.0f);
}

static inline floatV swiglu_clamped(floatV g, floatV u, float alpha, float limit)
{
    g = smaller(g, (floatV)(limit));
    u = larger(smaller(u, (floatV)(limit)), (floatV)(-limit));
    return g * logistic(alpha * g) * (u + 1.0f);
}

#define GATED(name, result) \
    __kernel void gated_##name(__global const int *step, __global const float *gate, \
                               __global const float *up, __global float *y, \
                               __global uint *records, int count_word, int width, float alpha, \
                               float limit) \
    { \
        EACH(width) { \
            floatV g = load_head(count, gate + i), u = load_head(count, up + i); \
            store_head(result, count, y + i); \
        } \
        RECORD_IT; \
    }

#define ACTIVATION(name, result) \
    GATED(name, (result) * u) \
    __kernel void activate_##name(__global const int *step, __global const float *x, \
                                  __global float *y, __global uint *records, int count_word, \
                                  int width) \
    { \
        EACH(width) { \
            floatV g = load_head(count, x + i); \
            store_head(result, count, y + i); \
        } \
        RECORD_IT; \
    }

ACTIVATION(silu, silu(g))
ACTIVATION(gelu, gelu(g))
ACTIVATION(gelu_tanh, gelu_tanh(g))
ACTIVATION(gelu_quick, gelu_quick(g))
ACTIVATION(relu, relu(g))
ACTIVATION(relu2, relu(g) * relu(g))
ACTIVATION(gompertz, exp(-exp(g)))
ACTIVATION(sigmoid, logistic(g))
GATED(swiglu_clamped, swiglu_clamped(g, u, alpha, limit))
GATED(bilinear, g * u)

__kernel void xielu(__global const int *step, __global const float *x, __global float *y,
                    int count_word, int width, float alpha_p, float alpha_n, float beta)
{
    ITEMS(width);
    floatV value = load_head(count, x + i), below = smaller(value, (floatV)(0.0f));
    floatV above = relu(value);
    store_head(alpha_p * above * above + alpha_n * (expm1(below) - below) + beta * value, count,
               y + i);
}

__kernel void softcap(__global const int *step, __global const float *x, __global float *y,
                      int count_word, int width, float cap)
{
    ITEMS(width);
    store_head(cap * tanh(load_head(count, x + i) / cap), count, y + i);
}

__kernel void clamp_to(__global const int *step, __global const float *x, __global float *y,
                       int count_word, int width, float limit)
{
    ITEMS(width);
    floatV value = smaller(load_head(count, x + i), (floatV)(limit));
    store_head(larger(value, (floatV)(-limit)), count, y + i);
}

__kernel void multiply(__global const int *step, __global const float *x, __global float *y,
                       int count_word, int width, float factor)
{
    ITEMS(width);
    store_head(load_head(count, x + i) * factor, count, y + i);
}

__kernel void add(__global const int *step, __global const float *a, __global const float *b,
                  __global float *y, int count_word, int width)
{
    ITEMS(width);
    store_head(load_head(count, a + i) + load_head(count, b + i), count, y + i);
}
