/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for NCCL: launches a kernel by a function that it has looked up itself, as NCCL with a static
 * CUDA runtime does.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>

typedef CUresult find_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Launches a kernel whose only parameter is `ns`. Returns the driver's result, -1 without a driver. */
__attribute__((visibility("default"))) int gf_test_all_reduce(CUfunction kernel, CUstream stream,
                                                              unsigned long long ns);
int gf_test_all_reduce(CUfunction kernel, CUstream stream, unsigned long long ns)
{
    static __typeof__(cuLaunchKernel) *launch;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *parameters[] = {&ns};
    find_fn *find = driver ? (find_fn *)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    CUdriverProcAddressQueryResult status;

    if (!find || (!launch && find("cuLaunchKernel", (void **)&launch, 12000, 0, &status)))
        return -1;
    volatile const CUresult result =
        launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL); /* no sibling call */
    return (int)result;
}
