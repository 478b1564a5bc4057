// Attention over the cache (cache.cl): partial softmaxes per TILE keys counted from position 0,
// merged in order. A result has VALUE_DIM numbers. A work-group does PAIRS of a row and a head that
// read the same keys: HEADS heads that share a key head, for up to ROWS rows of one sequence. Each
// pair is computed as if it were alone. With SPLIT a work-group does one tile of one row, and
// attention_merge does what is left: the same additions in the same order. With STORES rows are of
// a sequence each, HEADS are all that share a key head, and a work-group first stores what it will
// read: its row's key and value, as store_kv would. SLOPES, SOFTCAP: whether there are any: known
// this early, what is not needed takes no registers.

#define TILE 256
#define PAIRS (ROWS * HEADS)
#define NUMBER get_global_id(1)  // of a row, tile or part: a step may take several launches

// The numbers of a value, and their scale, in slot j of a head's block.
#if STORED_DIM
#define VALUES_IN_ROWS (STORED_DIM % V == 0)
#define VALUE_NUMBER(block, d, j) value_number(values + (block) * VALUE_BYTES, d, j)
#define VALUE_SCALE(block, d, j) value_scale(values + (block) * VALUE_BYTES, d, j)
#define VALUE_NUMBERS(block, d, j) value_numbers(values + (block) * VALUE_BYTES, d, j)
#else
#define VALUES_IN_ROWS 0
#define VALUE_NUMBER(block, d, j) key_number(keys + (block) * KEY_BYTES, d, j)
#define VALUE_SCALE(block, d, j) key_scale(keys + (block) * KEY_BYTES, d, j)
#define VALUE_NUMBERS(block, d, j) (floatV)(0.0f)  // not read
#endif

#define KEY_GROUP (IS_QUANTIZED(KEY_TYPE) ? 32 : HEAD_DIM)  // numbers with one scale
#define KEY_ROWS (HEAD_DIM % AT_ONCE ? 1 : AT_ONCE)         // that are loaded at once

// The slots of the cache that a sequence has, by position.
typedef struct {
    __global const int *table;
    int kv_heads, kv_head;
} Blocks;

static inline size_t block_of(Blocks blocks, int position)
{
    size_t block = blocks.table[position / KV_BLOCK];
    return block * blocks.kv_heads + blocks.kv_head;
}

// What a row sees of a tile: keys from..to, none where the first is not below the second.
typedef struct {
    int position, from, to;
} Sight;

static inline int oldest_key(int position, int window, int chunked)
{
    if (!window)
        return 0;
    return chunked ? position / window * window : larger(0, position - window + 1);
}

// One behind the last key. Without CAUSAL a row sees as far ahead as back.
static inline int end_of_keys(int position, int window, int length)
{
    if (CAUSAL)
        return position + 1;
    return window ? smaller(position + window, length) : length;
}

// A softmax over the tiles so far.
typedef struct {
    float highest, total;
} Softmax;

// Adds a tile. What is there is to be multiplied by .x, and what the tile has by .y.
static inline float2 add_tile(Softmax *all, float top, float sum)
{
    float merged = larger(all->highest, top);
    float before = top == -INFINITY ? 1.0f : exp(all->highest - merged);
    float now = top == -INFINITY ? 0.0f : exp(top - merged);
    all->total = fused(all->total, before, sum * now);
    all->highest = merged;
    return (float2)(before, now);
}

// Adds the score of a key without a value; returns what the sum of values is to be multiplied by.
static inline float add_sink(Softmax *all, __global const float *sink)
{
    if (!sink)
        return 1.0f;
    float merged = larger(all->highest, *sink), before = exp(all->highest - merged);
    all->total = fused(all->total, before, exp(*sink - merged));
    return before;
}

// Records of `count` heads from number `first` of all rows' heads on, which this work-group wrote.
static inline void record_heads(__global const float *y, __global uint *records, size_t first,
                                int count)
{
    first *= VALUE_DIM / 32;
    for (int b = get_local_id(0); b < count * (VALUE_DIM / 32); b += WG)
        quantize_block(y + (first + b) * 32, records + (first + b) * RECORD);
}

#define PARTIAL (VALUE_DIM + 2)  // numbers of a head's tile: top, sum, sums of values

// Sums and largest numbers over the work-group for all pairs at once.
static inline void group_sums(float *values, __local float *room)
{
    FOLD_ALL(values, PAIRS, room, a + b)
}

static inline void group_maxima(float *values, __local float *room)
{
    FOLD_ALL(values, PAIRS, room, larger(a, b))
}

#if STORES

// slot: of the row. ROTATES: of keys and queries, which go from q to rotated_q; as in store_kv.cl.
static inline void store_row(__global const float *k, __global const float *v, Cache keys,
                             Cache values, __global const float *q, __global float *rotated_q,
                             __global const float *table, int pairs, int interleaved,
                             Blocks blocks, int row, int slot)
{
    int lid = get_local_id(0), j = slot % KV_BLOCK;
    size_t block = (size_t)(slot / KV_BLOCK) * blocks.kv_heads + blocks.kv_head;
    size_t head = (size_t)row * blocks.kv_heads + blocks.kv_head;
    k += head * HEAD_DIM;
    keys += block * KEY_BYTES;
#if ROTATES
    table += (size_t)row * 2 * pairs;
    q += head * HEADS * HEAD_DIM;
    rotated_q += head * HEADS * HEAD_DIM;
    for (int i = lid; i < HEADS * HEAD_DIM; i += WG) {
        int d = i % HEAD_DIM;
        rotated_q[i] = rotated(q + (i - d), table, d, pairs, interleaved);
    }
    for (int d = lid; d < HEAD_DIM; d += WG)
        store_number(rotated(k, table, d, pairs, interleaved), keys, KEY_TYPE, d * KV_BLOCK + j);
#else
    for (int d = lid; d < HEAD_DIM; d += WG)
        store_number(k[d], keys, KEY_TYPE, d * KV_BLOCK + j);
#endif
#if STORED_DIM
    v += head * STORED_DIM;
    values += block * VALUE_BYTES;
    for (int d = lid; d < STORED_DIM; d += WG)
        store_number(v[d], values, VALUE_TYPE, j * STORED_DIM + d);
#endif
    barrier(CLK_GLOBAL_MEM_FENCE);
}

#endif

// Where values are narrower than the group, sets of its work-items add up a part of a tile's keys
// each.
#if VALUES_IN_ROWS && 4 * VALUE_DIM <= WG * V
#define SETS 4
#elif VALUES_IN_ROWS && 2 * VALUE_DIM <= WG * V
#define SETS 2
#else
#define SETS 1
#endif
#define SET_LANES (WG / SETS)
#define SET_KEYS (TILE / SETS)

// acc[p] += weights[p][j] * value; a weight of 0 leaves it alone whatever the value is, as those of
// keys have that a pair does not see.
#define ADD_WEIGHTED(type, load, d) \
    type acc[PAIRS]; \
    UNROLL \
    for (int p = 0; p < PAIRS; p++) \
        acc[p] = 0.0f; \
    for (int b = set_from / KV_BLOCK * KV_BLOCK; b < set_to; b += KV_BLOCK) { \
        size_t block = block_of(blocks, b); \
        int first = larger(set_from, b) / AT_ONCE * AT_ONCE; \
        int last = smaller(set_to, b + KV_BLOCK); \
        for (int at = first; at < last; at += AT_ONCE) { \
            type value[AT_ONCE]; \
            UNROLL \
            for (int i = 0; i < AT_ONCE; i++) \
                value[i] = load(block, d, at - b + i) * VALUE_SCALE(block, d, at - b + i); \
            UNROLL \
            for (int i = 0; i < AT_ONCE * PAIRS; i++) { \
                int p = i % PAIRS, n = i / PAIRS; \
                float weight = scores[p * TILE + at - start + n]; \
                acc[p] = weight != 0.0f ? fused((type)(weight), value[n], acc[p]) : acc[p]; \
            } \
        } \
    }

// Of pair p from number d on: sums over one tile, to those over the tiles before.
#define load1(p) (*(p))
#define store1(value, p) (*(p) = (value))
#if SPLIT
#define KEEP(type, load, store, p, d) store(acc[p], partials + (p) * PARTIAL + 2 + (d))
#else
#define KEEP(type, load, store, p, d) \
    store(fused(load(result + (p) * VALUE_DIM + (d)), (type)(factors[p].x), acc[p] * factors[p].y), \
          result + (p) * VALUE_DIM + (d))
#endif

// tiles: first row and number of rows of each group of ROWS, read where ROWS > 1. parts: row and
// tile, and partials: PARTIAL numbers for each part and head, both where SPLIT. slopes: by how
// much a head lowers a score per position of distance, or null. records: of y (record.cl), or null;
// heads are then whole multiples of 32. window, softcap: 0 is none;
// chunked: windows begin at multiples of their size. What follows is read where STORES: slots of
// the cache that rows go to, new keys and values, and where ROTATES queries as they come.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void attention(__global const int *step, __global const int *positions,
               __global const int *row_seqs, __global const int *seq_lens,
               __global const int *tiles, __global const int *parts,
               __global const int *block_tables, __global float *q,
               Cache keys, Cache values,
               __global const float *sinks, __global const float *slopes,
               __global float *partials, __global float *y, __global uint *records,
               int group, int kv_heads, float scale, int window, int chunked,
               float softcap, __global const int *slots, __global const float *k,
               __global const float *v, __global const float *unrotated,
               __global const float *table, int pairs, int interleaved)
{
    __local float room[PAIRS * WG], scores[PAIRS * TILE];
    int lid = get_local_id(0), first_head = HEADS * get_group_id(0);
    int heads = HEADS * get_num_groups(0);
#if SPLIT
    int row = parts[2 * NUMBER], rows = 1;
    partials += (NUMBER * heads + first_head) * PARTIAL;
#elif ROWS == 1
    int row = NUMBER, rows = 1;
#else
    int row = tiles[2 * NUMBER], rows = tiles[2 * NUMBER + 1];
#endif
    Blocks blocks = {
        block_tables + ((size_t)group * step[NUM_SEQS] + row_seqs[row]) * step[BLOCKS_PER_SEQ],
        kv_heads, first_head / (heads / kv_heads)
    };
#if STORES
    store_row(k, v, keys, values, unrotated, q, table, pairs, interleaved, blocks, row,
              slots[group * step[NUM_TOKENS] + row]);
#endif
    size_t query[PAIRS];  // missing rows repeat the last
    UNROLL
    for (int p = 0; p < PAIRS; p++)
        query[p] = (size_t)(row + smaller(p / HEADS, rows - 1)) * heads + first_head + p % HEADS;
    int length = seq_lens[row_seqs[row]];
    int end = end_of_keys(positions[row + rows - 1], window, length);
    int earliest = oldest_key(positions[row], window, chunked);
#if SPLIT
    int start = TILE * parts[2 * NUMBER + 1];
    if (start + TILE <= earliest || start >= end)
        return;
#else
    __local float result[PAIRS * VALUE_DIM];
    Softmax all[PAIRS];
    UNROLL
    for (int p = 0; p < PAIRS; p++) {
        all[p].highest = -INFINITY;
        all[p].total = 0.0f;
    }
    for (int d = lid; d < PAIRS * VALUE_DIM; d += WG)
        result[d] = 0.0f;
    for (int start = earliest / TILE * TILE; start < end; start += TILE)
#endif
    {
        int from = larger(earliest, start), to = smaller(end, start + TILE);
        Sight sights[PAIRS];
        float tops[PAIRS];
        float2 factors[PAIRS];
        UNROLL
        for (int p = 0; p < PAIRS; p++) {
            int position = positions[query[p] / heads];
            sights[p].position = position;
            sights[p].from = larger(oldest_key(position, window, chunked), start);
            sights[p].to = smaller(end_of_keys(position, window, length), start + TILE);
            tops[p] = -INFINITY;
        }
        for (int c = V * lid; c < TILE; c += V * WG) {
            floatV score[PAIRS];
            bool is_seen = start + c < to && start + c + V > from;
            if (is_seen) {
                Cache own = keys + block_of(blocks, start + c) * KEY_BYTES;
                int j = c % KV_BLOCK;
                UNROLL
                for (int p = 0; p < PAIRS; p++)
                    score[p] = 0.0f;
                for (int g = 0; g < HEAD_DIM; g += KEY_GROUP) {
                    floatV scales = key_scales(own, g, j);
                    for (int d = g; d < g + KEY_GROUP; d += KEY_ROWS) {
                        floatV numbers[KEY_ROWS];
                        UNROLL
                        for (int i = 0; i < KEY_ROWS; i++)
                            numbers[i] = key_numbers(own, d + i, j) * scales;
                        UNROLL
                        for (int i = 0; i < KEY_ROWS * PAIRS; i++) {
                            int p = i % PAIRS, n = i / PAIRS;
                            float number = q[query[p] * HEAD_DIM + d + n];
                            score[p] = fused((floatV)(number), numbers[n], score[p]);
                        }
                    }
                }
            }
            UNROLL
            for (int p = 0; p < PAIRS; p++) {
                floatV value = -INFINITY;
                if (is_seen) {
                    intV at = start + c + IOTA;
                    value = score[p] * scale;
                    if (SOFTCAP)
                        value = softcap * tanh(value / softcap);
                    if (SLOPES) {
                        floatV distance = convert_floatV(at - sights[p].position);
                        value = fused((floatV)(slopes[query[p] % heads]),
                                      CAUSAL ? distance : -fabs(distance), value);
                    }
                    value = at < sights[p].from ? (floatV)(-INFINITY) : value;
                    value = at >= sights[p].to ? (floatV)(-INFINITY) : value;
                }
                storeV(value, scores + p * TILE + c);
                float largest = MAX_OF(value);
                tops[p] = larger(tops[p], largest);
            }
        }
        group_maxima(tops, room);
        float sums[PAIRS];
        UNROLL
        for (int p = 0; p < PAIRS; p++) {
            sums[p] = 0.0f;
            for (int c = V * lid; c < TILE; c += V * WG) {
                floatV weight = exp(loadV(scores + p * TILE + c) - tops[p]);
                weight = tops[p] == -INFINITY ? (floatV)(0.0f) : weight;
                storeV(weight, scores + p * TILE + c);
                sums[p] += SUM_OF(weight);
            }
        }
        group_sums(sums, room);
        UNROLL
        for (int p = 0; p < PAIRS; p++) {
#if SPLIT
            if (lid == 0) {
                partials[p * PARTIAL] = tops[p];
                partials[p * PARTIAL + 1] = sums[p];
            }
#else
            factors[p] = add_tile(all + p, tops[p], sums[p]);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        int set = lid / SET_LANES, set_from = larger(from, start + set * SET_KEYS);
        int set_to = smaller(to, start + (set + 1) * SET_KEYS);
#if SETS > 1
        int d = V * (lid % SET_LANES);
        bool has_any = d < VALUE_DIM;
        d = smaller(d, VALUE_DIM - V);
        ADD_WEIGHTED(floatV, VALUE_NUMBERS, d)
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (int p = 0; p < PAIRS; p++)
            if (set && has_any)
                storeV(acc[p], scores + p * TILE + (set - 1) * VALUE_DIM + d);
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (int p = 0; p < PAIRS; p++)
            if (!set && has_any) {
                UNROLL
                for (int s = 0; s < SETS - 1; s++)
                    acc[p] += loadV(scores + p * TILE + s * VALUE_DIM + d);
                KEEP(floatV, loadV, storeV, p, d);
            }
#else
        for (int d = V * lid; d < VALUE_DIM; d += V * WG) {
            if (VALUES_IN_ROWS) {
                ADD_WEIGHTED(floatV, VALUE_NUMBERS, d)
                UNROLL
                for (int p = 0; p < PAIRS; p++)
                    KEEP(floatV, loadV, storeV, p, d);
                continue;
            }
            for (int e = d; e < smaller(d + V, VALUE_DIM); e++) {
                ADD_WEIGHTED(float, VALUE_NUMBER, e)
                UNROLL
                for (int p = 0; p < PAIRS; p++)
                    KEEP(float, load1, store1, p, e);
            }
        }
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if !SPLIT
    UNROLL  // private arrays are registers only where no index is known too late
    for (int p = 0; p < PAIRS; p++) {
        if (p / HEADS >= rows)
            continue;
        float last = add_sink(all + p, sinks ? sinks + query[p] % heads : 0);
        for (int d = lid; d < VALUE_DIM; d += WG)
            y[query[p] * VALUE_DIM + d] = result[p * VALUE_DIM + d] * last / all[p].total;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);  // in no branch: some drivers get those wrong
    for (int r = 0; records && r < rows; r++)
        record_heads(y, records, query[r * HEADS], HEADS);
#endif
}

#if SPLIT

// A work-group for each head of a row. part_starts: number of each row's first part.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void attention_merge(__global const int *positions, __global const int *part_starts,
                     __global const float *partials, __global const float *sinks,
                     __global float *y, __global uint *records, int window, int chunked)
{
    int lid = get_local_id(0), head = get_group_id(0), heads = get_num_groups(0);
    int row = NUMBER, position = positions[row];
    float result[(VALUE_DIM + WG - 1) / WG];
    for (int d = lid; d < VALUE_DIM; d += WG)
        result[d / WG] = 0.0f;
    Softmax all = {-INFINITY, 0.0f};
    int tile = oldest_key(position, window, chunked) / TILE;
    for (; tile <= position / TILE; tile++) {
        __global const float *own =
            partials + ((size_t)(part_starts[row] + tile) * heads + head) * PARTIAL;
        float2 factors = add_tile(&all, own[0], own[1]);
        for (int d = lid; d < VALUE_DIM; d += WG)
            result[d / WG] = fused(result[d / WG], factors.x, own[2 + d] * factors.y);
    }
    float last = add_sink(&all, sinks ? sinks + head : 0);
    size_t query = (size_t)row * heads + head;
    for (int d = lid; d < VALUE_DIM; d += WG)
        y[query * VALUE_DIM + d] = result[d / WG] * last / all.total;
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (records)
        record_heads(y, records, query, 1);
}

#endif
