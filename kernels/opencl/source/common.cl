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

#define larger(a, b) ((a) > (b) ? (a) : (b))
#define smaller(a, b) ((a) < (b) ? (a) : (b))

// A sum over the work-group in a fixed tree; WG is a power of two. Every work-item gets it.
static inline float group_sum(float value, __local float *room)
{
#if WG == 1
    return value;
#else
    int lid = get_local_id(0);
    room[lid] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = WG / 2; half_size; half_size /= 2) {
        if (lid < half_size)
            room[lid] += room[lid + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float sum = room[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
#endif
}

static inline float group_max(float value, __local float *room)
{
#if WG == 1
    return value;
#else
    int lid = get_local_id(0);
    room[lid] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = WG / 2; half_size; half_size /= 2) {
        if (lid < half_size)
            room[lid] = larger(room[lid], room[lid + half_size]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float largest = room[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return largest;
#endif
}

// A half in the low bits to float, without the fp16 extension and whatever the device does with
// subnormal floats.
static inline floatV half_bits(uintV bits)
{
    uintV exponent = bits >> 10 & 31u;
    uintV top = (bits & 0x7fffu) << 13;
    floatV normal = as_floatV(top + (112u << 23));
    floatV small = convert_floatV(bits & 1023u) * 0x1p-24f;
    floatV large = as_floatV(top | 0x7f800000u);
    floatV size = exponent == 0u ? small : normal;
    size = exponent == 31u ? large : size;
    return as_floatV(as_uintV(size) | (bits & 0x8000u) << 16);
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
