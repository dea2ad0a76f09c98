/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on streams that are busy, blocked or captured, and from several threads. The output must not
 * depend on the library.
 */
#include "gate.h"
#include "stage.h"

/*
 * Copies from a pageable source on a busy stream. With the library, the call returns before the
 * stream reaches the copy.
 */
static void busy(void)
{
    const size_t n = 2 * MIB;
    CUdeviceptr d = device(8 * MIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *source = malloc(n), *kept = malloc(n), *back = malloc(n);
    warm(d);
    fill(kept, n, 3);
    memcpy(source, kept, n);
    struct gate *gate = close_gate(s);
    ok(cuMemcpyHtoDAsync(d, source, n, s));
    memset(source, 0xee, n);
    open_gate(gate);
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH(back, d, n));
    check(back, kept, n, "busy");
}

/* Both directions, pageable and pinned memory, in one batch. */
static void batch(void)
{
    const size_t n = 2 * MIB;
    CUdeviceptr d = device(8 * MIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *kept = malloc(n), *source = malloc(n), *back = malloc(n), *pinned, *pinned_back;
    ok(cuMemAllocHost((void **)&pinned, n));
    ok(cuMemAllocHost((void **)&pinned_back, n));
    warm(d);
    fill(kept, n, 5);
    memcpy(source, kept, n);
    memcpy(pinned, kept, n);
    for (unsigned i = 2; i < 4; i++)
        ok(cuMemcpyHtoD(d + i * n, kept, n));
    /* the batch returns before the bytes of pageable members have arrived */
    ok(cuCtxSynchronize());
    CUdeviceptr to[] = {d, d + n, (uintptr_t)back, (uintptr_t)pinned_back};
    CUdeviceptr from[] = {(uintptr_t)source, (uintptr_t)pinned, d + 2 * n, d + 3 * n};
    size_t sizes[] = {n, n, n, n}, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
    ok(cuMemcpyBatchAsync(to, from, sizes, 4, &how, &first, 1, s));
    ok(cuStreamSynchronize(s));
    check(back, kept, n, "pageable from the device");
    check(pinned_back, kept, n, "pinned from the device");
    for (unsigned i = 0; i < 2; i++) {
        ok(cuMemcpyDtoH(back, d + i * n, n));
        check(back, kept, n, "to the device");
    }
}

struct late {
    struct gate *gate;
    unsigned char *source;
    size_t bytes;
};

static void *overwrite_and_open(void *arg)
{
    struct late *late = arg;
    usleep(100000);
    memset(late->source, 0xbb, late->bytes);
    open_gate(late->gate);
    return NULL;
}

/* A synchronous copy reads its source only when its stream has reached the copy. */
static void late_read(void)
{
    const size_t n = 8 * MIB;
    CUdeviceptr d = device(n);
    unsigned char *source = malloc(n), *back = malloc(n);
    pthread_t opener;
    warm(d);
    memset(source, 0xaa, n);
    struct gate *gate = close_gate(CU_STREAM_LEGACY);
    struct late late = {gate, source, n};
    pthread_create(&opener, NULL, overwrite_and_open, &late);
    ok(cuMemcpyHtoD(d, source, n));
    pthread_join(opener, NULL);
    ok(cuMemcpyDtoH(back, d, n));
    printf("read %02x %02x\n", back[0], back[n - 1]);
}

/*
 * Stream A waits until a thread opens its gate, which it does only after a copy on stream B. The
 * ring is smaller than A's copy.
 */
static struct {
    CUstream b;
    CUdeviceptr d;
    struct gate *gate;
    unsigned char *source;
} released;

static void *copy_then_release(void *unused)
{
    ok(cuCtxSetCurrent(context));
    usleep(50000);
    ok(cuMemcpyHtoDAsync(released.d, released.source, 16 * MIB, released.b));
    ok(cuStreamSynchronize(released.b));
    open_gate(released.gate);
    return unused;
}

static void blocked(void)
{
    const size_t n = 40 * MIB;
    CUdeviceptr d = device(n);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *source = malloc(n), *kept = malloc(n), *back = malloc(n);
    pthread_t thread;
    warm(d);
    released.b = stream(CU_STREAM_NON_BLOCKING);
    released.d = device(16 * MIB);
    released.source = calloc(16, MIB);
    fill(kept, n, 9);
    memcpy(source, kept, n);
    ok(cuMemcpyHtoDAsync(d, source, 4 * MIB, a));
    released.gate = close_gate(a);
    pthread_create(&thread, NULL, copy_then_release, NULL);
    ok(cuMemcpyHtoDAsync(d, source, n, a));
    ok(cuMemcpyDtoHAsync(back, d, n, a));
    pthread_join(thread, NULL);
    check(back, kept, n, "blocked");
}

/* A copy from the device on a blocked stream, and a copy to the device on another stream. */
static void *d2h_behind(void *arg)
{
    ok(cuCtxSetCurrent(context));
    ok(cuMemcpyDtoHAsync(released.source, released.d, 16 * MIB, arg));
    return NULL;
}

static void beside(void)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr d = device(16 * MIB);
    unsigned char *source = malloc(16 * MIB), *back = malloc(16 * MIB);
    pthread_t thread;
    warm(d);
    released.d = device(16 * MIB);
    released.source = malloc(16 * MIB);
    ok(cuMemsetD8(released.d, 0x5a, 16 * MIB));
    ok(cuCtxSynchronize());
    struct gate *gate = close_gate(a);
    pthread_create(&thread, NULL, d2h_behind, a);
    for (unsigned i = 0; i < 10; i++) {
        fill(source, 16 * MIB, i);
        ok(cuMemcpyHtoDAsync(d, source, 16 * MIB, b));
        ok(cuMemcpyDtoHAsync(back, d, 16 * MIB, b));
        check(back, source, 16 * MIB, "beside");
    }
    open_gate(gate);
    pthread_join(thread, NULL);
    memset(source, 0x5a, 16 * MIB);
    check(released.source, source, 16 * MIB, "behind");
}

/* Captures in one thread, in every mode, while other threads copy. */
static bool capturing;

static void *capture_all(void *unused)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    ok(cuCtxSetCurrent(context));
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr d = device(8 * MIB);
    unsigned char *host = calloc(8, MIB);
    for (unsigned i = 0; i < 150; i++) {
        CUgraph graph;
        size_t nodes = 0;
        ok(cuStreamBeginCapture(s, modes[i % 3]));
        ok(cuMemcpyHtoDAsync(d, host, 8 * MIB, s));
        usleep(200);
        ok(cuStreamEndCapture(s, &graph));
        ok(cuGraphGetNodes(graph, NULL, &nodes));
        if (nodes != 1)
            wrong++;
        checked++;
        ok(cuGraphDestroy(graph));
    }
    __atomic_store_n(&capturing, false, __ATOMIC_RELEASE);
    return unused;
}

static void captures(void)
{
    const size_t n = 8 * MIB;
    CUdeviceptr d = device(n);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *source = malloc(n), *back = malloc(n);
    pthread_t thread;
    warm(d);
    capturing = true;
    pthread_create(&thread, NULL, capture_all, NULL);
    for (unsigned i = 0; i < 10 || __atomic_load_n(&capturing, __ATOMIC_ACQUIRE); i++) {
        fill(source, n, i);
        ok(cuMemcpyHtoDAsync(d, source, n, s));
        ok(cuMemcpyDtoHAsync(back, d, n, s));
        if (memcmp(back, source, n))
            wrong++;
    }
    pthread_join(thread, NULL);
}

/* Many threads, each with a separate stream; some share one. */
static void *copy_much(void *arg)
{
    const unsigned self = (unsigned)(uintptr_t)arg;
    const size_t n = 3 * MIB + self * 4097;
    ok(cuCtxSetCurrent(context));
    CUstream s = self % 3 ? stream(CU_STREAM_NON_BLOCKING) : CU_STREAM_PER_THREAD;
    CUdeviceptr d = device(n);
    unsigned char *source = malloc(n), *kept = malloc(n), *back = malloc(n);
    for (unsigned i = 0; i < 8; i++) {
        fill(kept, n, self * 100 + i);
        memcpy(source, kept, n);
        ok(cuMemcpyHtoDAsync(d, source, n, s));
        memset(source, 0, n);
        ok(cuMemcpyDtoHAsync(back, d, n, s));
        if (memcmp(back, kept, n))
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[8];
    warm(device(8 * MIB));
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, copy_much, (void *)i);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

/* Many copies that the driver does not wait for, far ahead of their stream. */
static void ahead(void)
{
    const size_t n = MIB;
    CUdeviceptr d = device(64 * n);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *source = malloc(n), *kept = malloc(n), *back = malloc(n);
    warm(d);
    for (unsigned i = 0; i < 8; i++) {
        struct gate *gate = close_gate(s);
        for (unsigned k = 0; k < 64; k++) {
            fill(source, n, i * 64 + k);
            to_device(d + k * n, source, n, s, true);
        }
        open_gate(gate);
        ok(cuStreamSynchronize(s));
        for (unsigned k = 0; k < 64; k++) {
            fill(kept, n, i * 64 + k);
            from_device(back, d + k * n, n, s, false);
            check(back, kept, n, "ahead");
        }
        usleep(3000); /* gives the preparation time */
    }
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"busy", busy},     {"batch", batch},       {"late_read", late_read}, {"blocked", blocked},
        {"beside", beside}, {"captures", captures}, {"threads", threads},     {"ahead", ahead}};
    return run_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
