// Tells whether the variant's way to multiply four bytes at once compiles.

__kernel void probe(__global uint *x, __global int *y)
{
#ifdef HAS_DOT4
    y[0] = DOT4(x[0], x[1], y[0]);
#else
    y[0] = sum_of_pairs(pairs_of((uintV)(x[0]), x[1])).s0;
#endif
}
