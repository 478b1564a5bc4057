// Rows of blocks as they lie in a file, to strips (strips.py). A work-item moves one block; rows that
// are missing in the last strip become zeros.

#define WORDS (TYPE_SIZE / 4)
#define ODD (TYPE_SIZE % 4)
#define FIRST_WORD (SCALE_LAST ? 0 : ODD)
#define FIRST_ODD (SCALE_LAST ? 4 * WORDS : 0)

__kernel void to_strips(__global const uchar *rows, __global uchar *strips, int num_rows,
                        int blocks, int first_strip)
{
    int row = get_global_id(0), block = get_global_id(1), own = row % STRIP;
    bool is_there = row < num_rows;
    size_t strip = first_strip + row / STRIP;
    rows += ((size_t)row * blocks + block) * TYPE_SIZE;
    strips += (strip * blocks + block) * TYPE_SIZE * STRIP;
    for (int w = 0; w < WORDS; w++) {
        uint word = is_there ? as_uint(vload4(0, rows + FIRST_WORD + 4 * w)) : 0u;
        ((__global uint *)strips)[w * STRIP + own] = word;
    }
    for (int i = 0; i < ODD; i++)
        strips[4 * WORDS * STRIP + ODD * own + i] = is_there ? rows[FIRST_ODD + i] : 0;
}
