// Tells whether the variant's way to multiply four bytes at once compiles.

__kernel void probe(__global uint *x, __global int *y)
{
    y[0] = DOT4(x[0], x[1], y[0]);
}
