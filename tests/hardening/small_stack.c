/* SPDX-License-Identifier: Apache-2.0 */
/*
 * small_stack [gpu]: finds how many bytes of the smallest stack a thread's function may use before it
 * allocates, frees and copies. Tries each size in a separate process.
 */
#include <alloca.h>
#include <cuda.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP = 256, COPIED = 8 << 20 };
static CUcontext context;
static CUdeviceptr device;
static char *memory;

/*
 * Allocates more bytes than all caches hold, so malloc's slow paths run. If there is a log, they
 * write lines.
 */
static void use(void)
{
    for (int i = 0; i < 8; i++) {
        void *volatile block = calloc(1, 5 << 20), *volatile small = malloc(200);
        free(block);
        free(small);
    }
    if (context && (cuCtxSetCurrent(context) || cuMemcpyHtoD_v2(device, memory, COPIED)))
        _exit(1);
}

static void *run(void *size)
{
    volatile char *mine = alloca((size_t)size);
    for (size_t i = 0; i < (size_t)size; i += 64)
        mine[i] = 1;
    mine[0] = 1;
    use();
    return NULL;
}

static void try(size_t size, int gpu)
{
    pthread_attr_t attr;
    pthread_t thread;
    if (gpu) {
        memory = malloc(COPIED);
        memset(memory, 1, COPIED);
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
            cuMemAlloc_v2(&device, COPIED))
            _exit(2);
    }
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) ||
        pthread_create(&thread, &attr, run, (void *)size) || pthread_join(thread, NULL))
        _exit(3);
    _exit(0);
}

static int fits(size_t size, int gpu)
{
    int status;
    const pid_t child = fork();
    if (child == 0)
        try(size, gpu);
    if (waitpid(child, &status, 0) != child || (!WIFSIGNALED(status) && status))
        exit(1);
    return status == 0;
}

int main(int argc, char **argv)
{
    size_t low = 0, high = 2 * PTHREAD_STACK_MIN;
    (void)argv;
    while (high - low > STEP) {
        const size_t middle = (low + high) / 2;
        if (fits(middle, argc > 1))
            low = middle;
        else
            high = middle;
    }
    printf("%zu\n", low);
    return 0;
}
