// Keys and values of the step's rows into the cache (cache.cl): a work-item for each number, or for
// each 32 of a quantised type.

#define UNITS(type, dim) (IS_QUANTIZED(type) ? (dim) / 32 : (dim))
#define KEY_UNITS UNITS(KEY_TYPE, HEAD_DIM)
#define VALUE_UNITS UNITS(VALUE_TYPE, STORED_DIM)

static inline float inverse_of(float d)
{
    float inverse = 1.0f / d;
    return isfinite(inverse) ? inverse : 0.0f;
}

// 32 numbers; byte i goes to place + i * between. Rounds as ggml's reference does.
static inline void store_group(__global const float *x, Cache plane, int type, size_t place,
                               int between, __global half *scale)
{
    float top = 0.0f;
    for (int i = 0; i < 32; i++)
        if (fabs(x[i]) > fabs(top))
            top = x[i];
    float d = type == TYPE_Q8_0 ? fabs(top) / 127.0f : top / -8.0f, inverse = inverse_of(d);
    vstore_half_rte(d, 0, scale);
    if (type == TYPE_Q8_0) {
        for (int i = 0; i < 32; i++) {
            float scaled = x[i] * inverse, whole = (float)(int)scaled;
            plane[place + i * between] = (uchar)((int)whole + (int)(2.0f * (scaled - whole)));
        }
        return;
    }
    for (int i = 0; i < 16; i++) {
        int low = (int)(x[i] * inverse + 8.5f), high = (int)(x[16 + i] * inverse + 8.5f);
        plane[place + i * between] = (uchar)(smaller(low, 15) | smaller(high, 15) << 4);
    }
}

// With ROTATES keys are rotated first, and so are the `heads` heads of q, which go to y: items of
// their own behind the others. Not for keys of quantised types.
__kernel void store_kv(__global const int *step, __global const int *slots,
                       __global const float *k, __global const float *v, Cache keys, Cache values,
#if ROTATES
                       __global const float *q, __global const float *table, __global float *y,
                       int heads, int pairs, int interleaved,
#endif
                       int group, int kv_heads)
{
    size_t item = get_global_id(0);
    int tokens = step[NUM_TOKENS], units = KEY_UNITS + VALUE_UNITS;
    size_t stored = (size_t)tokens * kv_heads * units;
#if ROTATES
    if (item >= stored) {
        size_t i = item - stored, width = heads * HEAD_DIM;
        int d = i % HEAD_DIM;
        if (i < tokens * width)
            y[i] = rotated(q + (i - d), table + i / width * 2 * pairs, d, pairs, interleaved);
        return;
    }
#else
    if (item >= stored)
        return;
#endif
    size_t part = item / units;
    int token = part / kv_heads, head = part % kv_heads, unit = item % units;
    int slot = slots[group * tokens + token], j = slot % KV_BLOCK;
    size_t block = (size_t)(slot / KV_BLOCK) * kv_heads + head;
    if (unit < KEY_UNITS) {
        keys += block * KEY_BYTES;
#if IS_QUANTIZED(KEY_TYPE)
        __global half *scales = (__global half *)(keys + PLANE_BYTES(KEY_TYPE, HEAD_DIM));
        int row = ROW_OF(KEY_TYPE, 32 * unit);
        store_group(k + part * HEAD_DIM + 32 * unit, keys, KEY_TYPE, row * KV_BLOCK + j, KV_BLOCK,
                    scales + unit * KV_BLOCK + j);
#else
        __global const float *key = k + part * HEAD_DIM;
#if ROTATES
        float number =
            rotated(key, table + (size_t)token * 2 * pairs, unit, pairs, interleaved);
#else
        float number = key[unit];
#endif
        store_number(number, keys, KEY_TYPE, unit * KV_BLOCK + j);
#endif
        return;
    }
#if STORED_DIM
    unit -= KEY_UNITS;
    values += block * VALUE_BYTES;
#if IS_QUANTIZED(VALUE_TYPE)
    __global half *scales = (__global half *)(values + PLANE_BYTES(VALUE_TYPE, STORED_DIM));
    int place = j * ROWS_OF(VALUE_TYPE, STORED_DIM) + ROW_OF(VALUE_TYPE, 32 * unit);
    store_group(v + part * STORED_DIM + 32 * unit, values, VALUE_TYPE, place, 1,
                scales + j * (STORED_DIM / 32) + unit);
#else
    store_number(v[part * STORED_DIM + unit], values, VALUE_TYPE, j * STORED_DIM + unit);
#endif
#endif
}
