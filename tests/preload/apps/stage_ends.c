/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults, and ends of contexts and of the process, during copies. The output is the same as without
 * the library.
 */
#include "stage.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>

/* Faults in the program's memory: the same signal, on the same thread, with the same address. */
static pid_t copier;
static char *fault_start, *fault_end;

static void on_fault(int number, siginfo_t *info, void *unused)
{
    char *at = info->si_addr;
    char line[96];
    (void)unused;
    int n = snprintf(line, sizeof line, "signal %d, %s thread, address %s\n", number,
                     gettid() == copier ? "the copying" : "another",
                     at >= fault_start && at < fault_end ? "within" : "outside");
    if (write(1, line, (size_t)n) < 0)
        _exit(9);
    _exit(3);
}

static void fault(const char *how)
{
    const size_t n = 24 * MIB;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CUdeviceptr d = device(n);
    char path[] = "/tmp/gpufeed-stage-XXXXXX";
    int fd = mkstemp(path);
    bool d2h = strstr(how, "d2h") != NULL;
    warm(d);
    unlink(path);
    if (ftruncate(fd, (off_t)n))
        exit(1);
    char *at = mmap(NULL, n, PROT_READ | PROT_WRITE,
                    strstr(how, "file") ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
                    strstr(how, "file") ? fd : -1, 0);
    memset(at, 1, n);
    fault_start = at + 13 * MIB;
    fault_end = at + n;
    if (strstr(how, "file")) {
        if (ftruncate(fd, 13 * MIB))
            exit(1);
    } else if (strstr(how, "hole")) {
        fault_end = fault_start + 4096;
        mprotect(fault_start, 4096, PROT_NONE);
    } else if (strstr(how, "gap")) {
        fault_end = fault_start + 4096;
        munmap(fault_start, 4096);
    } else if (strstr(how, "readonly")) {
        fault_end = fault_start + 4096;
        mprotect(fault_start, 4096, PROT_READ);
    } else if (strstr(how, "key")) {
        int key = pkey_alloc(0, 0);
        if (key < 0) {
            printf("no protection keys\n");
            exit(0);
        }
        ok(cuMemcpyHtoD(d, at, n)); /* helpers start now, with the present protection keys */
        fault_end = fault_start + 4096;
        pkey_mprotect(fault_start, 4096, PROT_READ | PROT_WRITE, key);
        pkey_set(key, PKEY_DISABLE_ACCESS);
    }
    copier = gettid();
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    fflush(stdout);
    printf("back with %d\n", d2h ? cuMemcpyDtoH(at, d, n) : cuMemcpyHtoD(d, at, n));
}

/* Contexts end and begin again; the ring ends with its context. */
static void ends(void)
{
    const size_t n = 8 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    for (unsigned i = 0; i < 12; i++) {
        CUcontext own;
        if (i % 3 == 0)
            ok(cuCtxCreate(&own, NULL, 0, 0));
        else
            ok(cuDevicePrimaryCtxRetain(&own, 0));
        ok(cuCtxSetCurrent(own));
        CUdeviceptr d = device(n);
        warm(d);
        fill(source, n, i);
        ok(cuMemcpyHtoD(d, source, n));
        ok(cuMemcpyDtoH(back, d, n));
        check(back, source, n, "ends");
        if (i % 3 == 0)
            ok(cuCtxDestroy(own));
        else if (i % 3 == 1)
            ok(cuDevicePrimaryCtxReset(0));
        else {
            ok(cuDevicePrimaryCtxRelease(0));
            ok(cuDevicePrimaryCtxRelease(0));
            ok(cuDevicePrimaryCtxRelease(0));
        }
        if (i % 3)
            ok(cuDevicePrimaryCtxRetain(&context, 0));
    }
    char line[512];
    size_t locked = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps))
        if (!strncmp(line, "VmFlags:", 8) && strstr(line, " dc"))
            locked++;
    fclose(maps);
    printf("%s mappings that no child has\n", locked > 8 ? "many" : "few");
}

static CUgreenCtx green_context(CUcontext *ret)
{
    CUgreenCtx green;
    ok(cuGreenCtxCreate(&green, (CUdevResourceDesc)&green, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ok(cuCtxFromGreenCtx(ret, green));
    return green;
}

/* Copies in both directions in the current context. */
static void copy_both_ways(unsigned char *source, unsigned char *back, size_t n, unsigned seed)
{
    CUdeviceptr d = device(n);
    fill(source, n, seed);
    ok(cuMemcpyHtoD(d, source, n));
    ok(cuMemcpyDtoH(back, d, n));
    check(back, source, n, "green");
}

/*
 * Creates more green contexts than the library has entries, and as many primary contexts that end
 * with a green one.
 */
static void greens(void)
{
    const size_t n = MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUcontext own;
    for (unsigned i = 0; i < 80; i++) {
        CUgreenCtx green = green_context(&own);
        ok(cuCtxSetCurrent(own));
        copy_both_ways(source, back, n, i);
        void *pinned;
        ok(cuMemHostAlloc(&pinned, 4096, 0));
        ok(cuMemFreeHost(pinned));
        ok(cuGreenCtxDestroy(green));
    }
    ok(cuDevicePrimaryCtxRelease(0));
    for (unsigned i = 0; i < 80; i++) {
        CUcontext unused;
        ok(cuDevicePrimaryCtxRetain(&own, 0));
        ok(cuCtxSetCurrent(own));
        copy_both_ways(source, back, n, i);
        CUgreenCtx green = green_context(&unused);
        ok(cuDevicePrimaryCtxRelease(0));
        copy_both_ways(source, back, n, i); /* checks that the context is alive */
        ok(cuGreenCtxDestroy(green));
        printf("ended: %d\n", cuMemcpyHtoD(0, source, n));
    }
    ok(cuCtxCreate(&own, NULL, 0, 0));
    warm(device(8 * MIB));
    for (unsigned i = 0; i < 8; i++)
        copy_both_ways(source, back, n, i);
}

/*
 * Threads copy until the process ends. Forked children and cancelled threads must not disturb them.
 */
static void *copy_for_ever(void *arg)
{
    const size_t n = 16 * MIB;
    ok(cuCtxSetCurrent(context));
    CUdeviceptr d = device(n);
    unsigned char *host = calloc(1, n);
    for (;;) {
        if (cuMemcpyHtoDAsync(d, host, n, CU_STREAM_PER_THREAD) ||
            cuMemcpyDtoHAsync(host, d, n, CU_STREAM_PER_THREAD))
            pause();
        pthread_testcancel();
    }
    return arg;
}

static void leave(void)
{
    pthread_t thread[3];
    int status;
    warm(device(8 * MIB));
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, copy_for_ever, NULL);
    usleep(50000);
    for (unsigned i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(40 + (int)i + cuMemcpyHtoD(0, &status, 1) % 2);
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    }
    pthread_cancel(thread[0]);
    void *result;
    pthread_join(thread[0], &result);
    printf("cancelled %s\n", result == PTHREAD_CANCELED ? "yes" : "no");
    fflush(stdout);
    exit(7);
}

/* Seconds by which the test advances the clock of the whole process. */
static time_t ahead;

static int late_clock(clockid_t clock, struct timespec *ret)
{
    const long result = syscall(SYS_clock_gettime, clock, ret);
    ret->tv_sec += __atomic_load_n(&ahead, __ATOMIC_RELAXED);
    return (int)result;
}

/*
 * Makes libc's clock_gettime jump to late_clock. A definition in the program would not do, because
 * the engine's calls reach libc's own. Called while the process has one thread.
 */
static void replace_clock(void)
{
    int (*const to)(clockid_t, struct timespec *) = late_clock;
    unsigned char *at = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "clock_gettime");
    const uintptr_t page = (uintptr_t)at & ~(uintptr_t)(getpagesize() - 1);
#if defined(__x86_64__)
    unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}; /* jmp *0(%rip) */
#else
    unsigned char jump[] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6, /* ldr x16, .+8; br x16 */
                            0,    0, 0, 0,    0, 0,    0,    0};
#endif
    memcpy(jump + sizeof jump - sizeof to, &to, sizeof to);
    if (mprotect((void *)page, (uintptr_t)at + sizeof jump - page,
                 PROT_READ | PROT_WRITE | PROT_EXEC))
        exit(1);
    memcpy(at, jump, sizeof jump);
    __builtin___clear_cache((char *)at, (char *)at + sizeof jump);
}

static void *pinned(size_t bytes)
{
    void *ret;
    ok(cuMemHostAlloc(&ret, bytes, 0));
    return ret;
}

/*
 * Frees a block during a capture. The capture forbids the free, unless `mode` of the thread allows
 * it.
 */
static void free_beside_capture(void *block, CUstreamCaptureMode mode)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    printf("free beside a capture: %d\n", cuMemFreeHost(block));
    printf("its end: %d\n", cuStreamEndCapture(s, &graph));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
}

static void say_ring(const char *when)
{
    const struct ring ring = look_at_ring();
    fprintf(stderr, "%s: %d\n", when, ring.pinned || ring.touched);
}

/*
 * Copies until the ring has the largest size that copies of one thread request. A segment that is
 * still being prepared would not shrink with the ring.
 */
static void warm_wholly(CUdeviceptr d)
{
    void *host = malloc(8 * MIB);
    warm(d);
    for (unsigned i = 0; i < 1000 && look_at_ring().pinned && look_at_ring().pinned < 32 * MIB;
         i++) {
        ok(cuMemcpyDtoH(host, d, 8 * MIB));
        usleep(1000);
    }
    free(host);
}

/*
 * Memory that the ring did not need for a minute is freed inside a free that waits, and in no other
 * call.
 */
static void trim(void)
{
    CUdeviceptr d = device(8 * MIB);
    unsigned char *host = calloc(8, MIB);
    void *block = pinned(4 * MIB), *beside = pinned(4096), *small = pinned(4096);
    CUdeviceptr pooled;
    ok(cuMemAllocAsync(&pooled, MIB, CU_STREAM_LEGACY));
    warm_wholly(d);
    say_ring("before");
    __atomic_store_n(&ahead, 100, __ATOMIC_RELAXED);
    ok(cuMemcpyHtoD(d, host, MIB));
    say_ring("copy");
    __atomic_store_n(&ahead, 200, __ATOMIC_RELAXED);
    ok(cuMemFreeHost(small));
    printf("invalid: %d\n", cuMemFreeHost(host));
    say_ring("small");
    ok(cuMemFree(0));
    ok(cuMemFree(pooled));
    say_ring("device");
    free_beside_capture(block, CU_STREAM_CAPTURE_MODE_GLOBAL);
    say_ring("refused");
    free_beside_capture(block, CU_STREAM_CAPTURE_MODE_RELAXED);
    say_ring("large");
    for (unsigned i = 0; i < 4; i++)
        ok(cuMemcpyHtoD(d, host, 8 * MIB));
    ok(cuMemFreeHost(beside));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    time_limit(20);
    if (!strcmp(what, "trim"))
        replace_clock();
    begin();
    if (!strcmp(what, "ends"))
        ends();
    else if (!strcmp(what, "greens"))
        greens();
    else if (!strcmp(what, "leave"))
        leave();
    else if (!strcmp(what, "trim"))
        trim();
    else if (!strncmp(what, "fault", 5))
        fault(what + 5);
    printf("%u checked, %u wrong\n", checked, wrong);
    return wrong != 0;
}
