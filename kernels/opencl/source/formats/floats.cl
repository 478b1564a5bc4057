// F32, F16 and BF16: one weight is a block. LOAD_WEIGHT reads one of each of V rows.

#if TYPE_SIZE == 4
#define LOAD_WEIGHT(p) load_aligned((__global const float *)(p))
#elif defined IS_BF16
#define LOAD_WEIGHT(p) as_floatV(convert_uintV(load_aligned((__global const ushort *)(p))) << 16)
#else
#define LOAD_WEIGHT(p) load_halves((__global const half *)(p))
#endif
