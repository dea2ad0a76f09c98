/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of each kind of memory. The output is the driver's alone: it must not depend on the library. */
#include "gate.h"
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

/* Copies so small that staging saves little time. */
static void copy_small(unsigned count)
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

static void some(void)
{
    copy_small(12);
}

static void more(void)
{
    copy_small(400);
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
    static const struct part parts[] = {{"bytes", bytes}, {"vast", vast},   {"absent", absent},
                                        {"kinds", kinds}, {"odd", odd},     {"some", some},
                                        {"more", more},   {"files", files}, {"sources", sources}};
    return run_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
