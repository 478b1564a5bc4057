// The orthonormal Walsh-Hadamard transform of each head of SIZE numbers, a power of two: a
// work-group each.

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void hadamard(__global const float *x, __global float *y)
{
    __local float numbers[SIZE];
    int lid = get_local_id(0);
    x += (size_t)get_group_id(0) * SIZE;
    y += (size_t)get_group_id(0) * SIZE;
    for (int i = lid; i < SIZE; i += WG)
        numbers[i] = x[i] * FACTOR;
    for (int distance = 1; distance < SIZE; distance *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int pair = lid; pair < SIZE / 2; pair += WG) {
            int first = pair / distance * 2 * distance + pair % distance;
            float a = numbers[first], b = numbers[first + distance];
            numbers[first] = a + b;
            numbers[first + distance] = a - b;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lid; i < SIZE; i += WG)
        y[i] = numbers[i];
}
