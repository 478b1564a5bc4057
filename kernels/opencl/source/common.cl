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

// Folds numbers of each work-item over the group, `count` of them at once, each in a fixed tree; every
// work-item gets the roots. WG is a power of two; room: WG numbers for each of them. The first
// subgroup needs no barrier for the last levels; the tree is the same.
#if WG == 1
#define FOLD_ALL(values, count, room, folded)
#else
#ifdef HAS_SHUFFLES
#define FIRST_TOGETHER (int)smaller(get_max_sub_group_size(), (uint)WG)
#define FOLD_TOGETHER(count, room, folded) \
    if (get_sub_group_id() == 0) { \
        int lane = get_sub_group_local_id(); \
        for (int n = 0; n < (count); n++) { \
            float a = (room)[n * WG + lane]; \
            for (int distance = FIRST_TOGETHER / 2; distance; distance /= 2) { \
                float b = read_lane(a, distance); \
                a = folded; \
            } \
            if (lane == 0) \
                (room)[n * WG] = a; \
        } \
    } \
    barrier(CLK_LOCAL_MEM_FENCE)
#else
#define FIRST_TOGETHER 1
#define FOLD_TOGETHER(count, room, folded)
#endif
#define FOLD_ALL(values, count, room, folded) \
    int lid = get_local_id(0); \
    UNROLL \
    for (int n = 0; n < (count); n++) \
        (room)[n * WG + lid] = (values)[n]; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (int half_size = WG / 2; half_size >= FIRST_TOGETHER; half_size /= 2) { \
        for (int n = 0; n < (count) && lid < half_size; n++) { \
            __local float *own = (room) + n * WG + lid; \
            float a = own[0], b = own[half_size]; \
            own[0] = folded; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    } \
    FOLD_TOGETHER(count, room, folded); \
    UNROLL \
    for (int n = 0; n < (count); n++) \
        (values)[n] = (room)[n * WG]; \
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

static inline float group_sum(float value, __local float *room)
{
    FOLD_ALL(&value, 1, room, a + b)
    return value;
}

static inline float group_max(float value, __local float *room)
{
    FOLD_ALL(&value, 1, room, larger(a, b))
    return value;
}

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
