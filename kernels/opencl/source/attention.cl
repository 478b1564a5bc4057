// Keys and values into the cache, and attention over it. A block holds 32 tokens: a head's keys as
// (HEAD_DIM, 32), its values as (32, HEAD_DIM). KEYS_HALF and VALUES_HALF say what they are stored
// as.

#define TILE 256

#ifdef KEYS_HALF
typedef ushort Key;
#define LOAD_KEYS(p) half_bits(convert_uintV(vloadV(0, p)))
#define STORE_KEY(value, p) vstore_half_rte(value, 0, (__global half *)(p))
#else
typedef float Key;
#define LOAD_KEYS(p) vloadV(0, p)
#define STORE_KEY(value, p) *(p) = (value)
#endif

#ifdef VALUES_HALF
typedef ushort CacheValue;
#define LOAD_VALUES(p) half_bits(convert_uintV(vloadV(0, p)))
#define LOAD_VALUE(p) vload_half(0, (__global const half *)(p))
#define STORE_VALUE(value, p) vstore_half_rte(value, 0, (__global half *)(p))
#else
typedef float CacheValue;
#define LOAD_VALUES(p) vloadV(0, p)
#define LOAD_VALUE(p) *(p)
#define STORE_VALUE(value, p) *(p) = (value)
#endif

__kernel void store_kv(__global const int *step, __global const int *slots,
                       __global const float *k, __global const float *v, __global Key *keys,
                       __global CacheValue *values, int group, int kv_heads)
{
    size_t i = get_global_id(0);
    int width = kv_heads * HEAD_DIM, tokens = step[NUM_TOKENS];
    if (i >= (size_t)tokens * width)
        return;
    int token = i / width, head = i % width / HEAD_DIM, d = i % HEAD_DIM;
    int slot = slots[group * tokens + token], offset = slot % KV_BLOCK;
    size_t start = ((size_t)(slot / KV_BLOCK) * kv_heads + head) * KV_BLOCK * HEAD_DIM;
    STORE_KEY(k[i], keys + start + d * KV_BLOCK + offset);
    STORE_VALUE(v[i], values + start + offset * HEAD_DIM + d);
}

// Partial softmaxes per TILE keys counted from position 0, merged in order. A work-group does one
// head of one row. window, softcap: 0 is none.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void attention(__global const int *step, __global const int *positions,
               __global const int *row_seqs, __global const int *block_tables,
               __global const float *q, __global const Key *keys,
               __global const CacheValue *values, __global const float *sinks,
               __global float *y, int group, int kv_heads, float scale, int window, float softcap)
{
    __local float room[WG], scores[TILE], result[HEAD_DIM];
    int lid = get_local_id(0), head = get_group_id(0), heads = get_num_groups(0);
    int row = get_group_id(1), kv_head = head / (heads / kv_heads);
    int last = positions[row], first = window ? max(0, last - window + 1) : 0;
    __global const int *table =
        block_tables + ((size_t)group * step[NUM_SEQS] + row_seqs[row]) * step[BLOCKS_PER_SEQ];
    q += ((size_t)row * heads + head) * HEAD_DIM;
    y += ((size_t)row * heads + head) * HEAD_DIM;
    for (int d = lid; d < HEAD_DIM; d += WG)
        result[d] = 0.0f;
    float highest = -INFINITY, total = 0.0f;
    for (int tile = first / TILE; tile <= last / TILE; tile++) {
        int start = tile * TILE, from = max(first, start), to = min(last + 1, start + TILE);
        float top = -INFINITY;
        for (int c = V * lid; c < TILE; c += V * WG) {
            floatV score = -INFINITY;
            if (start + c < to && start + c + V > from) {
                int block = table[(start + c) / KV_BLOCK];
                __global const Key *key =
                    keys + ((size_t)block * kv_heads + kv_head) * KV_BLOCK * HEAD_DIM + c % KV_BLOCK;
                score = 0.0f;
                for (int d = 0; d < HEAD_DIM; d++)
                    score = fma(q[d], LOAD_KEYS(key + d * KV_BLOCK), score);
                score *= scale;
                if (softcap)
                    score = softcap * tanh(score / softcap);
                intV at = start + c + IOTA;
                score = select(score, (floatV)(-INFINITY), at < from);
                score = select(score, (floatV)(-INFINITY), at >= to);
            }
            vstoreV(score, 0, scores + c);
            top = fmax(top, MAX_OF(score));
        }
        top = group_max(top, room);
        float sum = 0.0f;
        for (int c = V * lid; c < TILE; c += V * WG) {
            floatV weight = exp(vloadV(0, scores + c) - top);
            vstoreV(weight, 0, scores + c);
            sum += SUM_OF(weight);
        }
        sum = group_sum(sum, room);
        barrier(CLK_LOCAL_MEM_FENCE);
        float merged = fmax(highest, top);
        float before = exp(highest - merged), now = exp(top - merged);
        total = fma(total, before, sum * now);
        highest = merged;
        for (int d = V * lid; d < HEAD_DIM; d += V * WG) {
            if (d + V <= HEAD_DIM) {
                floatV acc = 0.0f;
                for (int at = from; at < to; at++) {
                    int block = table[at / KV_BLOCK];
                    __global const CacheValue *value =
                        values + ((size_t)block * kv_heads + kv_head) * KV_BLOCK * HEAD_DIM;
                    value += at % KV_BLOCK * HEAD_DIM + d;
                    acc = fma(scores[at - start], LOAD_VALUES(value), acc);
                }
                vstoreV(fma(vloadV(0, result + d), before, acc * now), 0, result + d);
            } else {
                for (int e = d; e < HEAD_DIM; e++) {
                    float acc = 0.0f;
                    for (int at = from; at < to; at++) {
                        int block = table[at / KV_BLOCK];
                        __global const CacheValue *value =
                            values + ((size_t)block * kv_heads + kv_head) * KV_BLOCK * HEAD_DIM;
                        value += at % KV_BLOCK * HEAD_DIM + e;
                        acc = fma(scores[at - start], LOAD_VALUE(value), acc);
                    }
                    result[e] = fma(result[e], before, acc * now);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float before = 1.0f;
    if (sinks) {
        float merged = fmax(highest, sinks[head]);
        before = exp(highest - merged);
        total = fma(total, before, exp(sinks[head] - merged));
    }
    for (int d = lid; d < HEAD_DIM; d += WG)
        y[d] = result[d] * before / total;
}
