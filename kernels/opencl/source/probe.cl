// What a variant uses beyond plain OpenCL, for the host to compare: sums of products of four bytes,
// floats of halves, and the sum of those over the group.

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void probe(__global const uint *q, __global const uint *x, __global const uint *halves,
           __global int *dots, __global float *numbers, __global float *sums)
{
    __local float room[WG];
    int lid = get_local_id(0);
    ASK_FOR((__global const uchar *)x, 64);
    numbers[lid] = half_bits((uintV)(halves[lid])).s0;
    sums[lid] = group_sum(numbers[lid], room);
#if defined(HAS_DOT4)
    dots[lid] = DOT4(q[lid], x[lid], 0);
#elif defined(HAS_BYTE_PAIRS)
    dots[lid] = sum_of_pairs(pairs_of((uintV)(q[lid]), x[lid])).s0;
#else
    int4 products = convert_int4(as_char4(q[lid])) * convert_int4(as_char4(x[lid]));
    dots[lid] = products.s0 + products.s1 + products.s2 + products.s3;
#endif
}
