// How keys and values lie in the cache. A block holds 32 tokens: a head's keys as (HEAD_DIM, 32),
// its values as (32, STORED_DIM), or no values where STORED_DIM is 0 and they are part of the keys.
// KEYS_HALF and VALUES_HALF say what they are stored as.

#ifdef KEYS_HALF
typedef ushort Key;
#define LOAD_KEYS(p) half_bits(convert_uintV(loadV(p)))
#define LOAD_KEY(p) vload_half(0, (__global const half *)(p))
#define STORE_KEY(value, p) vstore_half_rte(value, 0, (__global half *)(p))
#else
typedef float Key;
#define LOAD_KEYS(p) loadV(p)
#define LOAD_KEY(p) *(p)
#define STORE_KEY(value, p) *(p) = (value)
#endif

#ifdef VALUES_HALF
typedef ushort CacheValue;
#define LOAD_VALUES(p) half_bits(convert_uintV(loadV(p)))
#define LOAD_VALUE(p) vload_half(0, (__global const half *)(p))
#define STORE_VALUE(value, p) vstore_half_rte(value, 0, (__global half *)(p))
#else
typedef float CacheValue;
#define LOAD_VALUES(p) loadV(p)
#define LOAD_VALUE(p) *(p)
#define STORE_VALUE(value, p) *(p) = (value)
#endif
