// Products for many rows of x. A work-group does one strip of STRIP rows of a matrix for TILE_TOKENS
// rows of x: TILE_UNITS units of columns at a time go to local memory, the weights unpacked, and
// each work-item multiplies V rows with ITEM_TOKENS rows of x. A unit is a group of block formats,
// or one column of floats. Additions are those of matmul.cl, in their order.
//
// The source before this one defines widen, which writes one unit of V rows as WEIGHT_WORDS words
// each, STRIP apart; add_unit; the words of x in a unit, and what of x is copied at once.

#define LANES (STRIP / V)
#define TILE_X (TILE_UNITS * X_UNIT)  // words of one row of x in local memory
#define PIECE_WORDS (sizeof(XPiece) / 4)

// Row t of an item is row t * TILE_ITEMS + item of the tile: neighbours read different banks.
static inline void tile_products(floatV *total, __global const uchar *strip,
                                 __global const XType *x, __local const uint *at, int columns,
                                 Grid grid, __local uint *weights, __local uint *numbers)
{
    int lane = get_local_id(0), item = get_local_id(1), blocks = columns / BLOCK_SIZE;
    for (int slice = 0; slice < SLICES; slice++) {
        floatV acc[ITEM_TOKENS];
        UNROLL
        for (int t = 0; t < ITEM_TOKENS; t++)
            acc[t] = 0.0f;
        int end = blocks * (slice + 1) / SLICES * UNITS;
        for (int unit = blocks * slice / SLICES * UNITS; unit < end; unit += TILE_UNITS) {
            int count = smaller(end - unit, TILE_UNITS);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int u = item; u < count; u += TILE_ITEMS)
                widen(strip, unit + u, lane, grid, weights + u * WEIGHT_WORDS * STRIP + V * lane);
            for (int i = item * LANES + lane; i < TILE_TOKENS * TILE_X / PIECE_WORDS;
                 i += LANES * TILE_ITEMS) {
                int t = PIECE_WORDS * i / TILE_X, word = PIECE_WORDS * i % TILE_X;
                if (word < count * X_UNIT)
                    ((__local XPiece *)numbers)[i] =
                        *(__global const XPiece *)(x + at[t] + unit * X_UNIT + word);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int u = 0; u < count; u++)
                add_unit(acc, weights + u * WEIGHT_WORDS * STRIP + V * lane,
                         numbers + item * TILE_X + u * X_UNIT, TILE_ITEMS * TILE_X);
        }
        UNROLL
        for (int t = 0; t < ITEM_TOKENS; t++)
            total[t] = slice ? total[t] + acc[t] : acc[t];
    }
}

#ifdef LOCAL_GRID
#define GRID_MEMORY __local uint grid_room[GRID_WORDS] __attribute__((aligned(16)))
#else
#define GRID_MEMORY
#endif

#define TILE_MEMORY \
    GRID_MEMORY; \
    __local uint weights[TILE_UNITS * WEIGHT_WORDS * STRIP] __attribute__((aligned(16))); \
    __local uint numbers[TILE_TOKENS * TILE_X] __attribute__((aligned(16))); \
    __local uint at[TILE_TOKENS]; \
    int lid = get_local_id(1) * LANES + get_local_id(0); \
    Grid grid = grid_in(grid_room, lid, LANES * TILE_ITEMS)

__kernel __attribute__((reqd_work_group_size(LANES, TILE_ITEMS, 1)))
void matmul_tiled(__global const int *step, __global const XType *x,
                  __global const float *residual, int count_word, int columns MATRIX_PARAMETERS)
{
    TILE_MEMORY;
    int first = TILE_TOKENS * get_group_id(0), strip = get_group_id(2), tokens = step[count_word];
    Matrix own;
    TAKE_MATRIX
    for (int t = lid; t < TILE_TOKENS; t += LANES * TILE_ITEMS)
        at[t] = (uint)smaller(first + t, tokens - 1) * X_ROW(columns);
    floatV total[ITEM_TOKENS];
    tile_products(total, strip_of(own, columns), x, at, columns, grid, weights, numbers);
    int row = own.strip * STRIP + V * get_local_id(0);
    if (row >= own.rows)
        return;
    UNROLL
    for (int t = 0; t < ITEM_TOKENS; t++) {
        int token = first + t * TILE_ITEMS + get_local_id(1);
        if (token < tokens)
            finish(total[t], own, residual, row, token);
    }
}

// The pairs of a row and a rank that go to one expert: TILE_TOKENS of `pairs`, or as many as the
// tile has (moe_sort in moe.cl). Without routing rank r has expert r, and tiles are of rows.
__kernel __attribute__((reqd_work_group_size(LANES, TILE_ITEMS, 1)))
void moe_tiled(__global const int *step, __global const XType *x, __global const float *routing,
               __global const int *pairs, __global const int *tiles, __global const uchar *weight,
               __global const float *bias, __global const float *scale, __global float *y,
               int rows, int columns, int top_k, int parts_of_x)
{
    TILE_MEMORY;
    __local int own[TILE_TOKENS];
    int tile = get_group_id(0), strip = get_group_id(2), tokens = step[NUM_TOKENS];
    int rank = tile % top_k, row_tile = tile / top_k * TILE_TOKENS;
    int expert = routing ? tiles[3 * tile] : rank;
    int first = routing ? tiles[3 * tile + 1] : row_tile;
    int count = routing ? tiles[3 * tile + 2] : smaller(tokens - row_tile, TILE_TOKENS);
    if (!count)
        return;
    for (int t = lid; t < TILE_TOKENS; t += LANES * TILE_ITEMS) {
        int number = first + smaller(t, count - 1);
        int pair = routing ? pairs[number] : number * top_k + rank;
        own[t] = pair;
        at[t] = (uint)(parts_of_x > 1 ? pair : pair / top_k) * X_ROW(columns);
    }
    floatV total[ITEM_TOKENS];
    int strips = (rows + STRIP - 1) / STRIP;
    size_t strip_bytes = (size_t)(columns / BLOCK_SIZE * TYPE_SIZE) * STRIP;
    tile_products(total, weight + (expert * strips + strip) * strip_bytes, x, at, columns, grid,
                  weights, numbers);
    int row = strip * STRIP + V * get_local_id(0);
    if (row >= rows)
        return;
    UNROLL
    for (int t = 0; t < ITEM_TOKENS; t++) {
        int number = t * TILE_ITEMS + get_local_id(1);
        if (number >= count)
            continue;
        floatV value = finished(total[t], bias ? bias + expert * rows + row : 0,
                                scale ? scale + expert : 0, rows - row);
        store_head(value, rows - row, y + (size_t)own[number] * rows + row);
    }
}
