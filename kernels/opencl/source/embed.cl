// Rows of a table, as float. Compiled with V = 1: one work-item does one group, or one float weight.
// Follows a snippet of any kind.

__kernel void embed(__global const int *step, __global const int *ids,
                    __global const uchar *table, __global float *out, int columns, float factor)
{
#ifdef GROUP
    int items = columns / 32;
#else
    int items = columns;
#endif
    int item = get_global_id(0), token = item / items;
    if (token >= step[NUM_TOKENS])
        return;
    int id = ids[token], strip = id / STRIP, lane = id % STRIP;
    table += (size_t)strip * (columns / BLOCK_SIZE * TYPE_SIZE) * STRIP;
#ifdef GROUP
    int group = item % items;
    uint q[8];
    float scale[32 / GROUP], low[32 / GROUP];
    Source src = source_of(table, group / (BLOCK_SIZE / 32), lane, GRID);
    unpack(src, group % (BLOCK_SIZE / 32), q, scale, low);
    out += (size_t)token * columns + 32 * group;
    for (int i = 0; i < 32; i++) {
        int byte = as_int(q[i / 4] << (24 - 8 * (i % 4))) >> 24;
        float value = scale[i / GROUP] * (float)(byte - OFFSET);
#ifdef HAS_LOW
        value += low[i / GROUP];
#endif
        out[i] = value * factor;
    }
#else
    int k = item % items;
    float value = LOAD_WEIGHT(table + (size_t)k * TYPE_SIZE * STRIP + TYPE_SIZE * lane);
    out[(size_t)token * columns + k] = value * factor;
#endif
}
