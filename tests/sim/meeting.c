/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that disturbs every call between cuProfilerStart and cuProfilerStop. Before the driver
 * does the call, the calling thread makes a copy, as a CUPTI callback may. During this time,
 * another thread must complete copies and pinned allocations. If the caller holds a lock of the
 * library, that thread cannot complete. It prints errors and calls by threads of the library on
 * standard error: helpers must make no call, and the library's own threads may only query.
 */
#include "front.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SIZE ((size_t)192 << 10)
#define PATIENCE_S 10

/* The functions as the program finds them: the library's hooks, if it is preloaded. */
static struct {
    __typeof__(cuMemcpyHtoD) *h2d;
    __typeof__(cuMemcpyDtoH) *d2h;
    __typeof__(cuMemHostAlloc) *host_alloc;
    __typeof__(cuMemFreeHost) *host_free;
} calls;

static sem_t wanted, done;
static bool on; /* atomic */
static CUcontext context;
static CUdeviceptr device, own_device;
static unsigned char own_bytes[SIZE]; /* bytes that the calling thread copies */
static unsigned meetings, wrong;      /* atomic */
static __thread bool inside;          /* calls of this thread are not disturbed now */

static void say(const char *what, int number)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    dprintf(2, "meeting: %s %s, on %s\n", what, names[number], name);
}

static void *call(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; !found && i < COUNT; i++)
        if (strcmp(names[i], name) == 0)
            found = own((int)i);
    return found;
}

static bool copy_and_allocate(unsigned char *host, unsigned char *back, unsigned turn)
{
    void *pinned = NULL;
    memset(host, (int)turn, SIZE);
    if (calls.h2d(device, host, SIZE) || calls.d2h(back, device, SIZE) || memcmp(host, back, SIZE))
        return false;
    return !calls.host_alloc(&pinned, 4096, 0) && !calls.host_free(pinned);
}

static void *meet(void *unused)
{
    unsigned char *host = malloc(SIZE), *back = malloc(SIZE);
    inside = true;
    real[number_cuCtxSetCurrent]((long)context, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    for (unsigned turn = 0;; turn++) {
        while (sem_wait(&wanted) != 0)
            ;
        if (!copy_and_allocate(host, back, turn))
            say("wrong copies beside", number_cuProfilerStart);
        sem_post(&done);
    }
    return unused;
}

static CUdeviceptr alloc(void)
{
    CUdeviceptr ret = 0;
    real[number_cuMemAlloc_v2]((long)&ret, SIZE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return ret;
}

static void begin(void)
{
    pthread_t thread;
    inside = true;
    calls.h2d = (__typeof__(cuMemcpyHtoD) *)call("cuMemcpyHtoD_v2");
    calls.d2h = (__typeof__(cuMemcpyDtoH) *)call("cuMemcpyDtoH_v2");
    calls.host_alloc = (__typeof__(cuMemHostAlloc) *)call("cuMemHostAlloc");
    calls.host_free = (__typeof__(cuMemFreeHost) *)call("cuMemFreeHost");
    real[number_cuCtxGetCurrent]((long)&context, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    device = alloc();
    own_device = alloc();
    sem_init(&wanted, 0, 0);
    sem_init(&done, 0, 0);
    if (!context || !device || !own_device || pthread_create(&thread, NULL, meet, NULL) != 0)
        abort();
    inside = false;
    __atomic_store_n(&on, true, __ATOMIC_RELEASE);
}

static void end(void)
{
    __atomic_store_n(&on, false, __ATOMIC_RELEASE);
    dprintf(2, "meetings: %u, wrong: %u\n", meetings, wrong);
}

/*
 * Disturbs a call. Only one thread of the program waits for the other thread at a time. If several
 * arrive together, the others continue at once.
 */
static void occasion(int number)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    struct timespec until;
    CUcontext current = NULL;

    /*
     * Without a current context no copy can succeed, for example on the thread that samples the
     * streams.
     */
    real[number_cuCtxGetCurrent]((long)&current, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (current && calls.h2d(own_device, own_bytes, SIZE) != CUDA_SUCCESS)
        say("wrong copies inside", number);
    if (pthread_mutex_trylock(&one) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    sem_post(&wanted);
    while (sem_timedwait(&done, &until) != 0)
        if (errno == ETIMEDOUT) {
            say("others are held up by", number);
            _exit(9);
        }
    __atomic_add_fetch(&meetings, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&one);
}

/*
 * Returns whether this thread of the library may make this call. The thread that samples the
 * streams sets the context for each query.
 */
static bool may_call(const char *thread, int number)
{
    if (strcmp(thread, "gpufeed-copy") == 0)
        return false;
    if (strcmp(thread, "gpufeed") == 0)
        return strstr(names[number], "Get") || number == number_cuInit;
    if (strcmp(thread, "gpufeed-gputime") == 0)
        return strstr(names[number], "Get") || strstr(names[number], "Query") ||
               number == number_cuCtxSetCurrent ||
               number == number_cuThreadExchangeStreamCaptureMode;
    return true;
}

static void front_before(int number)
{
    char name[16] = "";
    const int error = errno;

    if (!__atomic_load_n(&on, __ATOMIC_ACQUIRE) || inside)
        return;
    inside = true;
    prctl(PR_GET_NAME, name);
    if (!may_call(name, number))
        say("not for a thread of the library's:", number);
    else
        occasion(number);
    inside = false;
    errno = error;
}

static void front_after(int number, int result)
{
    (void)result;
    if (number == number_cuProfilerStart)
        begin();
    else if (number == number_cuProfilerStop)
        end();
}
