/* SPDX-License-Identifier: Apache-2.0 */
/* Copies whose results are the driver's alone: the output must not depend on the library. */
#include "stage.h"

/*
 * The source is overwritten as soon as the call has returned. The bytes that arrived are read back
 * in pieces.
 */
static void bytes(void)
{
    static const size_t sizes[] = {1,           4096,        MIB, 2 * MIB, 2 * MIB + 4097,
                                   5 * MIB - 5, 11 * MIB + 1};
    const size_t most = 12 * MIB;
    unsigned char *source = malloc(most), *back = malloc(most + 64), *kept = malloc(most);
    CUstream streams[] = {stream(CU_STREAM_NON_BLOCKING), stream(0), CU_STREAM_LEGACY,
                          CU_STREAM_PER_THREAD, NULL};
    CUdeviceptr d = device(most);
    warm(d);
    for (unsigned i = 0; i < 7 * 5; i++) {
        CUstream s = streams[i % 5];
        size_t n = sizes[i % 7], odd = i * 37 % 4096;
        n = n + odd > most ? n - odd : n;
        fill(kept + odd, n, i);
        memcpy(source + odd, kept + odd, n);
        to_device(d + odd % 64, source + odd, n, s, i & 1);
        if (!(i & 1))
            ok(cuCtxSynchronize()); /* a small asynchronous copy may return before it ends */
        memset(back, 0, n + 32);
        memset(source + odd, 0xee, n);
        from_device(back + odd % 32, d + odd % 64, n, s, i & 1 || i % 3 == 0);
        check(back + odd % 32, kept + odd, n, "bytes");
    }
}

/* Copies so large that their cache lines are demoted one by one. */
static void vast(void)
{
    const size_t n = 257 * MIB + 77;
    unsigned char *source = malloc(n + 64), *back = malloc(n);
    CUdeviceptr d = device(n);
    warm(d);
    fill(source, n + 64, 11);
    for (unsigned i = 0; i < 2; i++) {
        to_device(d, source + 13 * i, n, NULL, i);
        from_device(back, d, n, NULL, false);
        check(back, source + 13 * i, n, "vast");
    }
}

/*
 * Copies into pages that were never touched, at any offset in a huge page. The bytes around each
 * copy stay zero.
 */
static void absent(void)
{
    static const size_t offsets[] = {0, 1, 4096 + 5, MIB, 2 * MIB - 1};
    const size_t most = 37 * MIB;
    unsigned char *source = malloc(most), *zero = calloc(1, 4096);
    CUdeviceptr d = device(most);
    warm(d);
    fill(source, most, 3);
    to_device(d, source, most, NULL, false);
    for (unsigned i = 0; i < 15; i++) {
        const size_t n = 4 * MIB + i * (2 * MIB + 4097 * i), size = n + 8 * MIB;
        unsigned char *map =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(map, size, i & 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        unsigned char *to =
            (unsigned char *)(((uintptr_t)map + 4 * MIB) & -(2 * MIB)) + offsets[i % 5];
        from_device(to, d, n, NULL, i % 3 == 0);
        check(to, source, n, "absent");
        check(to - 4096, zero, 4096, "before");
        check(to + n, zero, 4096, "behind");
        munmap(map, size);
    }
}

/* Unified entry points, memory of all kinds. */
static void kinds(void)
{
    const size_t n = 3 * MIB;
    CUdeviceptr d = device(8 * MIB);
    unsigned char *kept = malloc(n), *back = malloc(n);
    fill(kept, n, 7);
    warm(d);
    char path[] = "/tmp/gpufeed-stage-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    if (write(fd, kept, n) != (ssize_t)n)
        exit(1);
    unsigned char *from[] = {
        malloc(n),
        mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0),
        mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0),
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
    };
    for (unsigned i = 0; i < 5; i++) {
        if (i != 1 && i != 2)
            memcpy(from[i], kept, n);
        if (i == 4)
            mprotect(from[i], n, PROT_READ);
        ok(cuMemsetD8(d, 0, n));
        ok(i & 1 ? cuMemcpy(d, (CUdeviceptr)(uintptr_t)from[i], n) : cuMemcpyHtoD(d, from[i], n));
        ok(i & 1 ? cuMemcpyAsync((CUdeviceptr)(uintptr_t)back, d, n, NULL)
                 : cuMemcpyDtoH(back, d, n));
        check(back, kept, n, "kinds");
    }
    /* pages that were never touched: zeros to read, and a destination to write */
    unsigned char *fresh =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(kept, 0, n);
    ok(cuMemcpyHtoD(d, fresh, n));
    ok(cuMemcpyDtoH(back, d, n));
    check(back, kept, n, "zeros");
}

/* Copies of memory that the driver knows or refuses, which are left to the driver. */
static void odd(void)
{
    const size_t n = 8 * MIB;
    CUdeviceptr d = device(n), managed;
    unsigned char *pageable = malloc(n + 8 * MIB), *registered = malloc(n);
    void *pinned;
    warm(d);
    ok(cuMemHostAlloc(&pinned, n, 0));
    ok(cuMemHostRegister(registered, n, 0));
    ok(cuMemAllocManaged(&managed, n, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemcpyHtoD(d, pinned, n));
    ok(cuMemcpyHtoD(d, registered, n));
    ok(cuMemcpyHtoD(managed, pageable, n));
    printf("past the end %d %d\n", cuMemcpyHtoD(d + 4096, pageable, n),
           cuMemcpyHtoDAsync(d, pageable, n + 4096, NULL));
    printf("from past the end %d\n", cuMemcpyDtoH(pageable, d + 1, n));
    printf("no device %d\n", cuMemcpyHtoD((CUdeviceptr)(uintptr_t)pageable, pageable, n));
    printf("null %d %d\n", cuMemcpyHtoD(0, pageable, n), cuMemcpyDtoH(pageable, 0, n));
    printf("host to host %d\n", cuMemcpy((CUdeviceptr)(uintptr_t)pageable,
                                         (CUdeviceptr)(uintptr_t)(pageable + n), 4 * MIB));
    unsigned on = 1;
    ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
    ok(cuMemcpyHtoDAsync(d, pageable, n, NULL));
}

/* Blocks a stream until it is released. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reached, open;
};

static void CUDA_CB stand(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static struct gate *close_gate(CUstream s)
{
    struct gate *gate = calloc(1, sizeof *gate);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    ok(cuLaunchHostFunc(s, stand, gate));
    pthread_mutex_lock(&gate->lock);
    while (!gate->reached)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return gate;
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

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

/* Copies so small that staging saves little time. */
static void some(unsigned count)
{
    const size_t n = 2 * MIB;
    CUdeviceptr d = device(n);
    unsigned char *source = malloc(n), *back = malloc(n);
    for (unsigned i = 0; i < count; i++) {
        fill(source, n, i);
        ok(cuMemcpyHtoD(d, source, n));
        ok(cuMemcpyDtoH(back, d, n));
        check(back, source, n, "some");
        if (i % 16 == 0)
            usleep(2000); /* gives the preparation time */
    }
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

static void *open_later(void *gate)
{
    usleep(50000);
    open_gate(gate);
    return NULL;
}

/*
 * Copies from files on an idle and on a busy stream. The files are so large that each copying
 * thread populates the pages that it copies.
 */
static void files(void)
{
    const size_t n = 40 * MIB + 12345, skip = 3 * 4096;
    CUdeviceptr d = device(n);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *kept = malloc(n + skip), *back = malloc(n);
    char path[] = "/tmp/gpufeed-stage-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    warm(d);
    for (unsigned i = 0; i < 4; i++) {
        fill(kept, n + skip, i);
        if (pwrite(fd, kept, n + skip, 0) != (ssize_t)(n + skip))
            exit(1);
        unsigned char *at = mmap(NULL, n, PROT_READ | PROT_WRITE, i & 1 ? MAP_PRIVATE : MAP_SHARED,
                                 fd, (off_t)skip);
        ok(cuMemsetD8(d, 0, n));
        ok(cuCtxSynchronize());
        pthread_t opener; /* without the library, the call waits for its stream */
        if (i >= 2)
            pthread_create(&opener, NULL, open_later, close_gate(s));
        to_device(d, at + i, n - i, s, i >= 2);
        memset(at, 0, n);
        if (i >= 2)
            pthread_join(opener, NULL);
        from_device(back, d, n - i, s, true);
        check(back, kept + skip + i, n - i, "files");
        munmap(at, n);
    }
}

/* Waits until the ring exists, as warm does, but copies from this memory. */
static void warm_by(CUdeviceptr d, const unsigned char *from, size_t n)
{
    for (unsigned i = 0;
         i < 300 && (i < 3 || (getenv("LD_PRELOAD") && !getenv("COLD") && !look_at_ring().pinned));
         i++) {
        ok(cuMemcpyHtoD(d, from, n));
        usleep(3000);
    }
}

/*
 * Copies from a mapped file, from the heap, and from a range that ends behind the file. Then copies
 * back.
 */
static void sources(void)
{
    const size_t n = 8 * MIB;
    CUdeviceptr d = device(n);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    unsigned char *heap = malloc(n), *back = malloc(n);
    char path[] = "/tmp/gpufeed-stage-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    fill(heap, n, 7);
    if (write(fd, heap, n) != (ssize_t)n)
        exit(1);
    unsigned char *at = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *both = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(both, n / 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    memcpy(both + n / 2, heap + n / 2, n / 2);
    warm_by(d, at, n);
    const unsigned char *const from[] = {at, at, heap, both};
    for (unsigned i = 0; i < 4; i++) {
        ok(cuMemsetD8(d, 0, n));
        ok(cuCtxSynchronize());
        to_device(d, from[i], n, s, i & 1);
        ok(cuStreamSynchronize(s));
        from_device(back, d, n, s, false);
        check(back, heap, n, "sources");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    alarm(20);
    begin();
    if (!strcmp(what, "bytes"))
        bytes();
    else if (!strcmp(what, "absent"))
        absent();
    else if (!strcmp(what, "vast"))
        vast();
    else if (!strcmp(what, "kinds"))
        kinds();
    else if (!strcmp(what, "odd"))
        odd();
    else if (!strcmp(what, "batch"))
        batch();
    else if (!strcmp(what, "busy"))
        busy();
    else if (!strcmp(what, "late_read"))
        late_read();
    else if (!strcmp(what, "blocked"))
        blocked();
    else if (!strcmp(what, "beside"))
        beside();
    else if (!strcmp(what, "captures"))
        captures();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "some"))
        some(12);
    else if (!strcmp(what, "more"))
        some(400);
    else if (!strcmp(what, "ahead"))
        ahead();
    else if (!strcmp(what, "files"))
        files();
    else if (!strcmp(what, "sources"))
        sources();
    printf("%u checked, %u wrong\n", checked, wrong);
    return wrong != 0;
}
