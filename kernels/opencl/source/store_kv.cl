// Keys and values of the step's rows into the cache (cache.cl), a work-item for each number.

__kernel void store_kv(__global const int *step, __global const int *slots,
                       __global const float *k, __global const float *v, __global Key *keys,
                       __global CacheValue *values, int group, int kv_heads)
{
    size_t i = get_global_id(0);
    int tokens = step[NUM_TOKENS], per_head = HEAD_DIM + STORED_DIM;
    if (i >= (size_t)tokens * kv_heads * per_head)
        return;
    size_t part = i / per_head;
    int token = part / kv_heads, head = part % kv_heads, d = i % per_head;
    int slot = slots[group * tokens + token], offset = slot % KV_BLOCK;
    size_t start = ((size_t)(slot / KV_BLOCK) * kv_heads + head) * KV_BLOCK;
    if (d < HEAD_DIM)
        STORE_KEY(k[part * HEAD_DIM + d], keys + start * HEAD_DIM + d * KV_BLOCK + offset);
#if STORED_DIM
    else
        STORE_VALUE(v[part * STORED_DIM + d - HEAD_DIM],
                    values + start * STORED_DIM + offset * STORED_DIM + d - HEAD_DIM);
#endif
}
