// How keys and values lie in the cache. A block holds KV_BLOCK tokens; of each key head it has the
// keys, dimension by dimension (HEAD_DIM, 32), and the values, token by token (32, STORED_DIM); no
// values where STORED_DIM is 0 and they are part of the keys. Quantised types store bytes or pairs
// of nibbles in those places, and behind them a half for every 32 numbers of a head: (groups, 32)
// of keys, (32, groups) of values. Nibble pairs are numbers i and 16 + i of their 32, as in Q4_0.

#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_Q8_0 2
#define TYPE_Q4_0 3

typedef __global uchar *Cache;

// Bytes of 32 tokens' numbers and of all that a block has of a head; rows of numbers (Q4_0: half).
#define IS_QUANTIZED(type) ((type) >= TYPE_Q8_0)
#define ROWS_OF(type, dim) ((type) == TYPE_Q4_0 ? (dim) / 2 : (dim))
#define NUMBER_BYTES(type) ((type) == TYPE_F32 ? 4 : (type) == TYPE_F16 ? 2 : 1)
#define PLANE_BYTES(type, dim) (ROWS_OF(type, dim) * KV_BLOCK * NUMBER_BYTES(type))
#define HEAD_BYTES(type, dim) \
    (PLANE_BYTES(type, dim) + (IS_QUANTIZED(type) ? (dim) / 32 * KV_BLOCK * 2 : 0))
#define KEY_BYTES HEAD_BYTES(KEY_TYPE, HEAD_DIM)
#define VALUE_BYTES HEAD_BYTES(VALUE_TYPE, STORED_DIM)

// Row of the plane that number d is in, and what to shift its byte by.
#define ROW_OF(type, d) ((type) == TYPE_Q4_0 ? (d) / 32 * 16 + (d) % 16 : (d))
#define SHIFT_OF(type, d) ((type) == TYPE_Q4_0 ? (d) % 32 / 16 * 4 : 0)

// V of them, at a multiple of V.
static inline floatV numbers_at(Cache plane, int type, size_t place, int shift)
{
    if (type == TYPE_F32)
        return load_aligned((__global const float *)plane + place);
    if (type == TYPE_F16)
        return load_halves((__global const half *)plane + place);
    intV bytes = convert_intV(load_aligned(plane + place));
    if (type == TYPE_Q8_0)
        return convert_floatV((bytes ^ 128) - 128);
    return convert_floatV((bytes >> shift & 15) - 8);
}

static inline float number_at(Cache plane, int type, size_t place, int shift)
{
    if (type == TYPE_F32)
        return ((__global const float *)plane)[place];
    if (type == TYPE_F16)
        return vload_half(place, (__global const half *)plane);
    if (type == TYPE_Q8_0)
        return (float)(char)plane[place];
    return (float)((plane[place] >> shift & 15) - 8);
}

// Not for quantised types, which need 32 numbers at once (store_kv.cl).
static inline void store_number(float x, Cache plane, int type, size_t place)
{
    if (type == TYPE_F32)
        ((__global float *)plane)[place] = x;
    else
        vstore_half_rte(x, place, (__global half *)plane);
}

// Number d of V keys from slot j on, and of one; without their scales.
static inline floatV key_numbers(Cache keys, int d, int j)
{
    int place = ROW_OF(KEY_TYPE, d) * KV_BLOCK + j;
    return numbers_at(keys, KEY_TYPE, place, SHIFT_OF(KEY_TYPE, d));
}

static inline float key_number(Cache keys, int d, int j)
{
    int place = ROW_OF(KEY_TYPE, d) * KV_BLOCK + j;
    return number_at(keys, KEY_TYPE, place, SHIFT_OF(KEY_TYPE, d));
}

static inline floatV key_scales(Cache keys, int d, int j)
{
    if (!IS_QUANTIZED(KEY_TYPE))
        return 1.0f;
    Cache scales = keys + PLANE_BYTES(KEY_TYPE, HEAD_DIM);
    return load_halves((__global const half *)scales + d / 32 * KV_BLOCK + j);
}

static inline float key_scale(Cache keys, int d, int j)
{
    if (!IS_QUANTIZED(KEY_TYPE))
        return 1.0f;
    Cache scales = keys + PLANE_BYTES(KEY_TYPE, HEAD_DIM);
    return vload_half(d / 32 * KV_BLOCK + j, (__global const half *)scales);
}

#if STORED_DIM

// V numbers from d on of the value in slot j, where its width is a multiple of V; and one number.
static inline floatV value_numbers(Cache values, int d, int j)
{
    int place = j * ROWS_OF(VALUE_TYPE, STORED_DIM) + ROW_OF(VALUE_TYPE, d);
    return numbers_at(values, VALUE_TYPE, place, SHIFT_OF(VALUE_TYPE, d));
}

static inline float value_number(Cache values, int d, int j)
{
    int place = j * ROWS_OF(VALUE_TYPE, STORED_DIM) + ROW_OF(VALUE_TYPE, d);
    return number_at(values, VALUE_TYPE, place, SHIFT_OF(VALUE_TYPE, d));
}

static inline float value_scale(Cache values, int d, int j)
{
    if (!IS_QUANTIZED(VALUE_TYPE))
        return 1.0f;
    Cache scales = values + PLANE_BYTES(VALUE_TYPE, STORED_DIM);
    return vload_half(j * (STORED_DIM / 32) + d / 32, (__global const half *)scales);
}

#endif
