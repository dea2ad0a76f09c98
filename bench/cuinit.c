/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded together with the library under test. A program that does not know of GPUs then has
 * called cuInit and has a context.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void init(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
    int (*retain)(void **, int) =
        cuda ? (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain") : NULL;
    if (!init || !retain || init(0) || retain(&context, 0)) {
        fprintf(stderr, "cuinit: no driver\n");
        exit(1);
    }
}
