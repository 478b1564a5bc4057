// Products with a matrix, and with the matrices of the experts that rows chose. Follows a source
// that defines add_products, X_ROW and XType. A work-group does one strip of STRIP rows, V to a
// work-item, in SLICES parts of the columns.

#define LANES (STRIP / V)

// Local memory, if any: the grid, and in its place the parts of results afterwards.
#if SLICES == 1
#define PARTS_MEMORY __local float *parts = 0
#else
#ifdef LOCAL_GRID
#define PARTS_SIZE larger(SLICES * TOKENS * STRIP, GRID_WORDS)
#else
#define PARTS_SIZE (SLICES * TOKENS * STRIP)
#endif
#define PARTS_MEMORY __local float parts[PARTS_SIZE] __attribute__((aligned(16)))
#endif

// The parts of one result, added in order.
static inline floatV sum_of_slices(__local float *parts, int t, int lane)
{
    floatV sum = loadV(parts + t * STRIP + V * lane);
    UNROLL
    for (int s = 1; s < SLICES; s++)
        sum += loadV(parts + (s * TOKENS + t) * STRIP + V * lane);
    return sum;
}

// Computes acc for rows of x at words at[0..TOKENS], and all slices' parts of it.
static inline void strip_products(floatV *acc, __global const uchar *strip,
                                  __global const XType *x, const uint *at, int columns,
                                  __local float *parts)
{
    int lane = get_local_id(0), blocks = columns / BLOCK_SIZE;
#if SLICES == 1
    add_products(acc, strip, x, at, lane, GRID, 0, blocks);
#else
    int slice = get_local_id(1);
    Grid grid = grid_in((__local uint *)parts, slice * LANES + lane, LANES * SLICES);
    add_products(acc, strip, x, at, lane, grid, blocks * slice / SLICES,
                 blocks * (slice + 1) / SLICES);
#ifdef LOCAL_GRID
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        storeV(acc[t], parts + (slice * TOKENS + t) * STRIP + V * lane);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
}

// The results that a work-item has: those of rows FIRST_RESULT to TOKENS of x, SLICES apart.
#if SLICES == 1
#define FIRST_RESULT 0
#define RESULT(t) acc[t]
#else
#define FIRST_RESULT get_local_id(1)
#define RESULT(t) sum_of_slices(parts, t, get_local_id(0))
#endif

__kernel __attribute__((reqd_work_group_size(LANES, SLICES, 1)))
void matmul(__global const int *step, __global const XType *x, __global const float *residual,
            int count_word, int columns MATRIX_PARAMETERS)
{
    PARTS_MEMORY;
    int strip = get_group_id(0), first = TOKENS * get_group_id(2), tokens = step[count_word];
    Matrix own;
    TAKE_MATRIX
    uint at[TOKENS];
    UNROLL
    for (int t = 0; t < TOKENS; t++)
        at[t] = (uint)smaller(first + t, tokens - 1) * X_ROW(columns);
    floatV acc[TOKENS];
    strip_products(acc, strip_of(own, columns), x, at, columns, parts);
    int row = own.strip * STRIP + V * get_local_id(0);
    if (row >= own.rows)
        return;
    for (int t = FIRST_RESULT; t < TOKENS && first + t < tokens; t += SLICES)
        finish(RESULT(t), own, residual, row, first + t);
}

#if TOKENS == 1
// rows: of one expert; parts_of_x: 1, or top_k where each rank has a part of the row of its own.
// Without routing rank r has expert r. pairs, tiles: not read, see tile.cl.
__kernel __attribute__((reqd_work_group_size(LANES, SLICES, 1)))
void moe_matmul(__global const int *step, __global const XType *x, __global const float *routing,
                __global const int *pairs, __global const int *tiles,
                __global const uchar *weight, __global const float *bias,
                __global const float *scale, __global float *y,
                int rows, int columns, int top_k, int parts_of_x)
{
    PARTS_MEMORY;
    int strip = get_group_id(0), rank = get_group_id(1), token = get_group_id(2);
    int expert = routing ? (int)routing[token * 2 * top_k + rank] : rank;
    int strips = (rows + STRIP - 1) / STRIP;
    uint at = (uint)(token * parts_of_x + (parts_of_x > 1 ? rank : 0)) * X_ROW(columns);
    size_t strip_bytes = (size_t)(columns / BLOCK_SIZE * TYPE_SIZE) * STRIP;
    floatV acc[1];
    strip_products(acc, weight + (expert * strips + strip) * strip_bytes, x, &at, columns, parts);
    int row = strip * STRIP + V * get_local_id(0);
    if (row >= rows || FIRST_RESULT)
        return;
    __global const float *own_bias = bias ? bias + expert * rows + row : 0;
    __global const float *own_scale = scale ? scale + expert : 0;
    floatV value = finished(RESULT(0), own_bias, own_scale, rows - row);
    store_head(value, rows - row, y + (size_t)(token * top_k + rank) * rows + row);
}
#endif
