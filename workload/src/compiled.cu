// Kernels that the examples have NVRTC compile at run time, for the GPU that is there.

// y = 2 x
extern "C" __global__ void scale(const float *x, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}

// y = a b
extern "C" __global__ void multiply(const float *a, const float *b, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a[i] * b[i];
}

// y = a + b
extern "C" __global__ void add(const float *a, const float *b, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a[i] + b[i];
}

// y = a + b c, which is what multiply and add make together
extern "C" __global__ void multiply_add(const float *a, const float *b, const float *c, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a[i] + b[i] * c[i];
}

// Combines a value of each of the block's 256 threads, in as many floats of shared memory.
template <typename Combine> __device__ float of_block(float value, float *shared, Combine combine) {
    shared[threadIdx.x] = value;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    value = shared[0];
    __syncthreads();
    return value;
}

// Softmax of each row, one block of 256 threads a row.
extern "C" __global__ void softmax(const float *x, float *y, int columns) {
    __shared__ float shared[256];
    x += (long long)blockIdx.x * columns;
    y += (long long)blockIdx.x * columns;
    float most = x[0], sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, x[i]);
    most = of_block(most, shared, [](float a, float b) { return fmaxf(a, b); });
    for (int i = threadIdx.x; i < columns; i += 256) sum += __expf(x[i] - most);
    sum = of_block(sum, shared, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < columns; i += 256) y[i] = __expf(x[i] - most) / sum;
}
