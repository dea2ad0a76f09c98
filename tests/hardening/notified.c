/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notified [gpu]: registers for the messages of a queue, then allocates and frees for some seconds
 * beside a second thread. The kernel removes the registration whenever any table of this process
 * closes a descriptor of the queue. Prints whether the process is still registered.
 */
#include <cuda.h>
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void *sleep_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static int use_gpu(void)
{
    CUcontext context;
    CUdevice device;
    CUdeviceptr memory;

    return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
           cuCtxSetCurrent(context) || cuMemAlloc(&memory, 4096) || cuMemsetD8(memory, 1, 4096);
}

static void use_heap(unsigned seconds)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        char *blocks[16];
        for (unsigned i = 0; i < 16; i++)
            memset(blocks[i] = malloc(8 * MIB), 1, 8 * MIB);
        for (unsigned i = 0; i < 16; i++)
            free(blocks[i]);
        usleep(20000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < seconds);
}

int main(int argc, char **argv)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
    const struct sigevent event = {.sigev_notify = SIGEV_NONE};
    char name[40];
    pthread_t thread;

    (void)argv;
    snprintf(name, sizeof(name), "/notified-%d", (int)getpid());
    const mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
    if (queue == (mqd_t)-1) {
        perror("mq_open");
        return 77;
    }
    mq_unlink(name);
    pthread_create(&thread, NULL, sleep_for_ever, NULL);
    if (argc > 1 && use_gpu())
        return 1;
    use_heap(1); /* the library's threads start, which closes copies of descriptors once */
    if (mq_notify(queue, &event))
        return 1;
    /* On a busy machine one of the threads may start later. A call that does not fail registers again. */
    bool kept = false;
    for (unsigned i = 0; i < 3 && !kept; i++) {
        use_heap(3);
        kept = mq_notify(queue, &event) != 0 && errno == EBUSY;
    }
    puts(kept ? "registered" : "lost");
    return 0;
}
