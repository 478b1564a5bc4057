// Tells whether what the variant uses beyond plain OpenCL compiles.

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void probe(__global uint *x, __global int *y, __global float *z)
{
    __local float room[WG];
    ASK_FOR((__global const uchar *)x, 64);
    z[get_local_id(0)] = group_sum(half_bits((uintV)(x[0])).s0, room);
#if defined(HAS_DOT4)
    y[0] = DOT4(x[0], x[1], y[0]);
#elif defined(HAS_BYTE_PAIRS)
    y[0] = sum_of_pairs(pairs_of((uintV)(x[0]), x[1])).s0;
#endif
}
