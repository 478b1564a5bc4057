// The KEEP best of a row of numbers, best first and of equals the lowest number first: from every
// TILE of them at first, then from what is left, until one tile is all. A number and its place are
// a key, so that keys compare as they should and no two are equal. KEEP and TILE are powers of two.

#if KEEP > TILE
#error "no tile may be smaller than what is kept of it"
#endif

// Larger for what goes first: a NaN, so that it is seen, then large numbers, then low places.
static inline ulong key_of(uint bits, uint place)
{
    uint size = bits & 0x7fffffffu, order = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (size == 0)
        order = 0x80000000u;  // both zeros
    if (size > 0x7f800000u)
        order = 0xffffffffu;
    return (ulong)order << 32 | (uint)~place;
}

static inline void exchange(__local ulong *keys, int first, int distance, int is_descending)
{
    ulong a = keys[first], b = keys[first + distance];
    if ((a < b) == is_descending) {
        keys[first] = b;
        keys[first + distance] = a;
    }
}

// The first of pair i where those of a pair are so far apart, a power of two.
static inline int first_of(int i, int distance)
{
    return 2 * i - (i & (distance - 1));
}

// Leaves the KEEP largest of TILE keys in front. Bitonic: runs of KEEP are sorted, the first half of
// them downwards and the others upwards; of two such runs the larger of each pair are the best of
// both, and are put in order again.
static inline void keep_best(__local ulong *keys)
{
    int lid = get_local_id(0), runs = TILE / KEEP;
    for (int size = 2; size <= KEEP; size *= 2)
        for (int distance = size / 2; distance; distance /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = lid; i < TILE / 2; i += WG) {
                int first = first_of(i, distance);
                int is_descending =
                    size < KEEP ? !(first & size) : runs == 1 || first / KEEP < runs / 2;
                exchange(keys, first, distance, is_descending);
            }
        }
    for (runs /= 2; runs; runs /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lid; i < runs * KEEP; i += WG)
            keys[i] = larger(keys[i], keys[i + runs * KEEP]);
        for (int distance = KEEP / 2; distance; distance /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = lid; i < runs * KEEP / 2; i += WG) {
                int first = first_of(i, distance);
                exchange(keys, first, distance, runs == 1 || first / KEEP < runs / 2);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// A work-group for each tile of each row of `width`; parts of y that no number is left for are 0.
#define BEST(name, type, key) \
    __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) \
    void name(__global const type *x, __global ulong *y, int width) \
    { \
        __local ulong keys[TILE]; \
        int lid = get_local_id(0), start = TILE * get_group_id(0); \
        size_t row = get_group_id(1); \
        x += row * width + start; \
        y += (row * get_num_groups(0) + get_group_id(0)) * KEEP; \
        for (int i = lid; i < TILE; i += WG) \
            keys[i] = start + i < width ? (key) : 0; \
        keep_best(keys); \
        for (int i = lid; i < KEEP; i += WG) \
            y[i] = keys[i]; \
    }

BEST(best_numbers, uint, key_of(x[i], start + i))
BEST(best_keys, ulong, x[i])

// The place of each row's best.
__kernel void best_places(__global const int *step, __global const ulong *best, __global int *y)
{
    size_t row = get_global_id(0);
    if (row < step[NUM_TOKENS])
        y[row] = (int)~(uint)best[row * KEEP];
}
