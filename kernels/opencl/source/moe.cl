// Choosing experts and adding up what they say; their products are in matmul.cl.

#define SOFTMAX 0
#define SOFTMAX_SELECTED 1
#define SIGMOID 2

#define MIN_GATE_SUM 0x1p-14f  // kernels.ops.moe

// What the scores of one row say of an expert.
typedef struct {
    __global const float *scores, *bias;
    int gating;
    float top, sum;
} Scores;

static inline float weight_of(Scores row, int expert)
{
    float score = row.scores[expert];
    if (row.gating == SOFTMAX)
        return exp(score - row.top) / row.sum;
    return row.gating == SIGMOID ? sigmoid(score) : score;
}

// Bit g is set where group g of `size` experts is among the `used` best by the sum of their `best`
// (1 or 2) highest preferences.
static inline ulong best_groups(__local const float *preferences, int groups, int size, int used,
                                int best)
{
    ulong chosen = 0;
    for (int n = 0; n < used; n++) {
        int winner = -1;
        float most = -INFINITY;
        for (int g = 0; g < groups; g++) {
            float first = -INFINITY, second = -INFINITY;
            for (int e = g * size; e < (g + 1) * size; e++) {
                float value = preferences[e];
                second = larger(second, smaller(first, value));
                first = larger(first, value);
            }
            float score = best == 1 ? first : second + first;
            if (!(chosen >> g & 1) && (winner < 0 || score > most)) {
                winner = g;
                most = score;
            }
        }
        chosen |= 1UL << winner;
    }
    return chosen;
}

#define TAKEN -1  // in place of an expert's own number

// Whether expert b goes before a, either of which may be TAKEN: of two alike, the lower number.
static inline bool goes_before(float a, int expert_a, float b, int expert_b)
{
    if (expert_a == TAKEN || expert_b == TAKEN)
        return expert_b != TAKEN;
    return b > a || (b == a && expert_b < expert_a);
}

// A work-group for each row.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void moe_route(__global const float *scores, __global const float *bias, __global float *out,
               int top_k, int gating, int groups, int groups_used, int group_best, int normalize,
               float factor)
{
    __local float room[WG], preferences[EXPERTS];
    __local int numbers[EXPERTS], best[WG];
    int lid = get_local_id(0);
    Scores row = {scores + get_group_id(0) * EXPERTS, bias, gating, -INFINITY, 0.0f};
    __global float *chosen = out + get_group_id(0) * 2 * top_k, *weights = chosen + top_k;
    for (int e = lid; e < EXPERTS; e += WG)
        row.top = larger(row.top, row.scores[e]);
    row.top = group_max(row.top, room);
    for (int e = lid; e < EXPERTS; e += WG)
        row.sum += exp(row.scores[e] - row.top);
    row.sum = group_sum(row.sum, room);
    for (int e = lid; e < EXPERTS; e += WG) {
        preferences[e] = weight_of(row, e) + (bias ? bias[e] : 0.0f);
        numbers[e] = e;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0 && groups > 1) {
        int size = EXPERTS / groups;
        ulong seen = best_groups(preferences, groups, size, groups_used, group_best);
        for (int e = 0; e < EXPERTS; e++)
            if (!(seen >> e / size & 1))
                preferences[e] = -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int rank = 0; rank < top_k; rank++) {
        float most = -INFINITY;
        int winner = TAKEN;
        for (int e = lid; e < EXPERTS; e += WG)
            if (goes_before(most, winner, preferences[e], numbers[e])) {
                most = preferences[e];
                winner = e;
            }
        room[lid] = most;
        best[lid] = winner;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = WG / 2; half_size; half_size /= 2) {
            int other = lid + half_size;
            if (lid < half_size && goes_before(room[lid], best[lid], room[other], best[other])) {
                room[lid] = room[other];
                best[lid] = best[other];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (lid == 0) {
            chosen[rank] = (float)best[0];
            weights[rank] = weight_of(row, best[0]);
            numbers[best[0]] = TAKEN;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid > 0)
        return;
    float sum = 0.0f;
    if (gating == SOFTMAX_SELECTED) {
        float top = -INFINITY;
        for (int r = 0; r < top_k; r++)
            top = larger(top, weights[r]);
        for (int r = 0; r < top_k; r++)
            sum += exp(weights[r] - top);
        for (int r = 0; r < top_k; r++)
            weights[r] = exp(weights[r] - top) / sum;
        sum = 0.0f;
    }
    for (int r = 0; r < top_k; r++)
        sum += weights[r];
    sum = larger(sum, MIN_GATE_SUM);
    for (int r = 0; r < top_k; r++)
        weights[r] = (normalize ? weights[r] / sum : weights[r]) * factor;
}

#ifdef TILE_TOKENS

// Pairs of a row and a rank, number row * top_k + rank, ordered by expert, and tiles of at most
// TILE_TOKENS pairs of one expert: expert, first pair, number of pairs; without any where there are
// fewer tiles than work-groups for them. One work-group; pairs of one expert come in any order.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void moe_sort(__global const int *step, __global const float *routing, __global int *pairs,
              __global int *tiles, int top_k)
{
    __local int counts[EXPERTS], next[EXPERTS], first_tile[EXPERTS + 1];
    int lid = get_local_id(0), total = step[NUM_TOKENS] * top_k;
    for (int e = lid; e < EXPERTS; e += WG)
        counts[e] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lid; i < total; i += WG)
        atomic_inc(counts + (int)routing[i / top_k * 2 * top_k + i % top_k]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        int pair = 0, tile = 0;
        for (int e = 0; e < EXPERTS; e++) {
            next[e] = pair;
            first_tile[e] = tile;
            pair += counts[e];
            tile += (counts[e] + TILE_TOKENS - 1) / TILE_TOKENS;
        }
        first_tile[EXPERTS] = tile;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = lid; e < EXPERTS; e += WG)
        for (int done = 0, t = 3 * first_tile[e]; done < counts[e]; done += TILE_TOKENS, t += 3) {
            tiles[t] = e;
            tiles[t + 1] = next[e] + done;
            tiles[t + 2] = smaller(counts[e] - done, TILE_TOKENS);
        }
    int most = smaller(total, EXPERTS + total / TILE_TOKENS);
    for (int t = first_tile[EXPERTS] + lid; t < most; t += WG)
        tiles[3 * t + 2] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lid; i < total; i += WG)
        pairs[atomic_inc(next + (int)routing[i / top_k * 2 * top_k + i % top_k])] = i;
}

#endif

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
        sum = fused(routing[r], x[r * width], sum);
    y[i] = sum;
}
