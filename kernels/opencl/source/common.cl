// In front of every kernel, after the definitions of this device's variant. All that decides
// bits is explicit: nothing is contracted, sums have a fixed shape.

#pragma OPENCL FP_CONTRACT OFF

#define UNROLL _Pragma("unroll")  // for loops of few, known turns

// Words of `step`, the counts of one step.
#define NUM_TOKENS 0
#define NUM_OUTPUTS 1
#define NUM_SEQS 2
#define BLOCKS_PER_SEQ 3

#define KV_BLOCK 32

// Has what lies ahead of `bytes` at p come from memory, where the device wants to be told.
#ifdef ASK_FOR_LINE
#define ASK_FOR(p, bytes) \
    UNROLL \
    for (int line = 0; line < (bytes); line += 64) \
        ASK_FOR_LINE((p) + line)
#else
#define ASK_FOR(p, bytes)
#endif

#define larger(a, b) ((a) > (b) ? (a) : (b))
#define smaller(a, b) ((a) < (b) ? (a) : (b))

// Folds a number of each work-item over the group in a fixed tree, of which every work-item gets the
// root; WG is a power of two. Work-items of the first subgroup need no barrier for the last levels;
// the tree is the same.
#if WG == 1
#define GROUP_FOLD(name, folded) \
    static inline float name(float value, __local float *room) \
    { \
        return value; \
    }
#else
#ifdef HAS_SHUFFLES
#define FIRST_TOGETHER (int)smaller(get_max_sub_group_size(), (uint)WG)
#define FOLD_TOGETHER(half_size, folded) \
    if (get_sub_group_id() == 0) { \
        float a = room[lid]; \
        for (; half_size; half_size /= 2) { \
            float b = read_lane(a, half_size); \
            a = folded; \
        } \
        if (lid == 0) \
            room[0] = a; \
    } \
    barrier(CLK_LOCAL_MEM_FENCE)
#else
#define FIRST_TOGETHER 1
#define FOLD_TOGETHER(half_size, folded)
#endif
#define GROUP_FOLD(name, folded) \
    static inline float name(float value, __local float *room) \
    { \
        int lid = get_local_id(0), half_size = WG / 2; \
        room[lid] = value; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        for (; half_size >= FIRST_TOGETHER; half_size /= 2) { \
            if (lid < half_size) { \
                float a = room[lid], b = room[lid + half_size]; \
                room[lid] = folded; \
            } \
            barrier(CLK_LOCAL_MEM_FENCE); \
        } \
        FOLD_TOGETHER(half_size, folded); \
        float root = room[0]; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        return root; \
    }
#endif

GROUP_FOLD(group_sum, a + b)
GROUP_FOLD(group_max, larger(a, b))

// A half in the low bits to float; without the fp16 extension by integers, whatever the device does
// with subnormal floats.
static inline floatV half_bits(uintV bits)
{
#ifdef HALVES
    return HALVES(bits);
#else
    uintV exponent = bits >> 10 & 31u;
    uintV top = (bits & 0x7fffu) << 13;
    floatV normal = as_floatV(top + (112u << 23));
    floatV small = convert_floatV(bits & 1023u) * 0x1p-24f;
    floatV large = as_floatV(top | 0x7f800000u);
    floatV size = exponent == 0u ? small : normal;
    size = exponent == 31u ? large : size;
    return as_floatV(as_uintV(size) | (bits & 0x8000u) << 16);
#endif
}

// The first `count` of V floats from memory, the others 0; and to memory.
static inline floatV load_head(int count, __global const float *from)
{
    if (count >= V)
        return loadV(from);
    float parts[V];
    for (int i = 0; i < V; i++)
        parts[i] = i < count ? from[i] : 0.0f;
    return loadV(parts);
}

static inline void store_head(floatV value, int count, __global float *to)
{
    if (count >= V) {
        storeV(value, to);
        return;
    }
    float parts[V];
    storeV(value, parts);
    for (int i = 0; i < count; i++)
        to[i] = parts[i];
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + exp(-x));
}
