// Attention over the cache (cache.cl): partial softmaxes per TILE keys counted from position 0,
// merged in order. A result has VALUE_DIM numbers.

#define TILE 256

// Where number d of the value at a position lies.
#define BLOCK_OF(at) (((size_t)table[(at) / KV_BLOCK] * kv_heads + kv_head) * KV_BLOCK)
#if STORED_DIM
#define VALUES_IN_ROWS 1
#define VALUE_AT(at, d) (values + (BLOCK_OF(at) + (at) % KV_BLOCK) * STORED_DIM + (d))
#else
#define VALUES_IN_ROWS 0
#define VALUE_AT(at, d) (keys + BLOCK_OF(at) * HEAD_DIM + (d) * KV_BLOCK + (at) % KV_BLOCK)
#undef LOAD_VALUE
#undef LOAD_VALUES
#define LOAD_VALUE LOAD_KEY
#define LOAD_VALUES LOAD_KEYS
#endif

// A work-group does one head of one row. window, softcap: 0 is none.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void attention(__global const int *step, __global const int *positions,
               __global const int *row_seqs, __global const int *block_tables,
               __global const float *q, __global const Key *keys,
               __global const CacheValue *values, __global const float *sinks,
               __global float *y, int group, int kv_heads, float scale, int window, float softcap)
{
    __local float room[WG], scores[TILE], result[VALUE_DIM];
    int lid = get_local_id(0), head = get_group_id(0), heads = get_num_groups(0);
    int row = get_group_id(1), kv_head = head / (heads / kv_heads);
    int last = positions[row], first = window ? max(0, last - window + 1) : 0;
    __global const int *table =
        block_tables + ((size_t)group * step[NUM_SEQS] + row_seqs[row]) * step[BLOCKS_PER_SEQ];
    q += ((size_t)row * heads + head) * HEAD_DIM;
    y += ((size_t)row * heads + head) * VALUE_DIM;
    for (int d = lid; d < VALUE_DIM; d += WG)
        result[d] = 0.0f;
    float highest = -INFINITY, total = 0.0f;
    for (int tile = first / TILE; tile <= last / TILE; tile++) {
        int start = tile * TILE, from = max(first, start), to = min(last + 1, start + TILE);
        float top = -INFINITY;
        for (int c = V * lid; c < TILE; c += V * WG) {
            floatV score = -INFINITY;
            if (start + c < to && start + c + V > from) {
                __global const Key *key =
                    keys + BLOCK_OF(start + c) * HEAD_DIM + c % KV_BLOCK;
                score = 0.0f;
                for (int d = 0; d < HEAD_DIM; d++)
                    score = fused(q[d], LOAD_KEYS(key + d * KV_BLOCK), score);
                score *= scale;
                if (softcap)
                    score = softcap * tanh(score / softcap);
                intV at = start + c + IOTA;
                score = at < from ? (floatV)(-INFINITY) : score;
                score = at >= to ? (floatV)(-INFINITY) : score;
            }
            storeV(score, scores + c);
            top = larger(top, MAX_OF(score));
        }
        top = group_max(top, room);
        float sum = 0.0f;
        for (int c = V * lid; c < TILE; c += V * WG) {
            floatV weight = exp(loadV(scores + c) - top);
            storeV(weight, scores + c);
            sum += SUM_OF(weight);
        }
        sum = group_sum(sum, room);
        barrier(CLK_LOCAL_MEM_FENCE);
        float merged = larger(highest, top);
        float before = exp(highest - merged), now = exp(top - merged);
        total = fused(total, before, sum * now);
        highest = merged;
        for (int d = V * lid; d < VALUE_DIM; d += V * WG) {
            if (VALUES_IN_ROWS && d + V <= VALUE_DIM) {
                floatV acc = 0.0f;
                for (int at = from; at < to; at++)
                    acc = fused(scores[at - start], LOAD_VALUES(VALUE_AT(at, d)), acc);
                storeV(fused(loadV(result + d), before, acc * now), result + d);
                continue;
            }
            for (int e = d; e < min(d + V, VALUE_DIM); e++) {
                float acc = 0.0f;
                for (int at = from; at < to; at++)
                    acc = fused(scores[at - start], LOAD_VALUE(VALUE_AT(at, e)), acc);
                result[e] = fused(result[e], before, acc * now);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float before = 1.0f;
    if (sinks) {
        float merged = larger(highest, sinks[head]);
        before = exp(highest - merged);
        total = fused(total, before, exp(sinks[head] - merged));
    }
    for (int d = lid; d < VALUE_DIM; d += WG)
        y[d] = result[d] * before / total;
}
