/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are not staged because of their context or stream. */
#include "stage.h"

/* Streams of one context while another context is current. */
static void foreign(void)
{
    const size_t n = 4 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUdeviceptr d = device(8 * MIB);
    CUstream here = stream(CU_STREAM_NON_BLOCKING), there;
    CUcontext other;
    warm(d);
    ok(cuCtxCreate(&other, NULL, 0, 0));
    there = stream(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 2; i++) {
        fill(source, n, i);
        printf("to it %d\n", cuMemcpyHtoDAsync(d, source, n, i ? there : here));
        printf("from it %d\n", cuMemcpyDtoHAsync(back, d, n, i ? there : here));
        check(back, source, n, "foreign");
        ok(cuCtxSetCurrent(context));
    }
    for (unsigned i = 0; i < 2; i++) {
        ok(cuCtxSetCurrent(i ? other : context));
        CUdeviceptr own = device(8 * MIB);
        warm(own);
        fill(source, n, 7 + i);
        ok(cuMemcpyHtoD(own, source, n));
        ok(cuMemcpyDtoH(back, own, n));
        check(back, source, n, "own");
    }
}

/* A green context's stream while the primary context is current. */
static void green(void)
{
    const size_t n = 4 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUdeviceptr d = device(8 * MIB);
    CUgreenCtx green;
    CUstream s;
    warm(d);
    ok(cuGreenCtxCreate(&green, (CUdevResourceDesc)&green, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ok(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    for (unsigned i = 0; i < 2; i++) {
        fill(source, n, i);
        ok(cuMemcpyHtoDAsync(d, source, n, s));
        ok(cuMemcpyDtoHAsync(back, d, n, s));
        check(back, source, n, "green");
    }
    ok(cuGreenCtxDestroy(green));
}

/* Copies in several contexts of a device, each large enough for a ring of 16 MiB. */
static void rings(void)
{
    const size_t n = 16 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUcontext contexts[3] = {context};
    CUdeviceptr d[3];

    for (unsigned i = 0; i < 3; i++) {
        if (i)
            ok(cuCtxCreate(&contexts[i], NULL, 0, 0));
        d[i] = device(n);
    }
    for (unsigned i = 0; i < 24; i++) {
        ok(cuCtxSetCurrent(contexts[i % 3]));
        fill(source, n, i);
        ok(cuMemcpyHtoD(d[i % 3], source, n));
        ok(cuMemcpyDtoH(back, d[i % 3], n));
        check(back, source, n, "rings");
        usleep(5000); /* the library's thread makes rings larger */
    }
}

/* A context whose copies are all synchronous. */
static void synchronous(void)
{
    const size_t n = 4 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUcontext own;
    ok(cuCtxCreate(&own, NULL, CU_CTX_SYNC_MEMOPS, 0));
    CUdeviceptr d = device(n);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 2; i++) {
        fill(source, n, i);
        ok(cuMemcpyHtoDAsync(d, source, n, s));
        printf("arrived %d\n", cuStreamQuery(s));
        ok(cuMemcpyDtoHAsync(back, d, n, s));
        check(back, source, n, "synchronous");
    }
}

/* A capture that a call has invalidated lasts until it is ended. */
static void invalidated(void)
{
    const size_t n = 4 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUdeviceptr d = device(8 * MIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    warm(d);
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("killed by %d\n", cuStreamSynchronize(s));
    printf("copy %d\n", cuMemcpyHtoDAsync(d, source, n, s));
    printf("end %d\n", cuStreamEndCapture(s, &graph));
    for (unsigned i = 0; i < 2; i++) {
        fill(source, n, i);
        ok(cuMemcpyHtoDAsync(d, source, n, s));
        ok(cuMemcpyDtoHAsync(back, d, n, s));
        check(back, source, n, "invalidated");
    }
}

/*
 * A captured copy does not run now. So it does not prepare the ring, and its duration is not used
 * for the driver's rate.
 */
static void early(void)
{
    unsigned char *source = malloc(MIB);
    CUdeviceptr d = device(MIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    memset(source, 1, MIB);
    for (unsigned i = 0; i < 40; i++) {
        CUgraph graph = NULL;
        ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(cuMemcpyHtoDAsync(d, source, MIB, s));
        ok(cuStreamEndCapture(s, &graph));
        ok(cuGraphDestroy(graph));
    }
}

/*
 * The library first sees a context during a capture. A call on the legacy stream would invalidate
 * that capture.
 */
static void beginning(void)
{
    const size_t n = 4 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUdeviceptr d = device(8 * MIB);
    CUstream capturing = stream(0), s = stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    fill(source, n, 3);
    ok(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemcpyHtoDAsync(d, source, n, s));
    ok(cuMemcpyDtoHAsync(back, d, n, s));
    printf("end %d\n", cuStreamEndCapture(capturing, &graph));
    check(back, source, n, "beside it");
    warm(d);
    ok(cuMemcpyHtoD(d, source, n));
    ok(cuMemcpyDtoH(back, d, n));
    check(back, source, n, "after it");
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from,
                                      size_t bytes); /* the header defines it only as a macro */

/* Work on the legacy stream that ends when a thread has returned from a copy on its own stream. */
static void wait_for(void *done)
{
    while (!__atomic_load_n((bool *)done, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void behind(void)
{
    const size_t n = 2 * MIB;
    unsigned char *source = malloc(n), *back = malloc(n);
    CUdeviceptr d = device(8 * MIB);
    warm(d);
    for (size_t size = n; size >= MIB; size /= 2) {
        bool done = false;
        fill(source, n, (unsigned)size);
        ok(cuLaunchHostFunc(CU_STREAM_LEGACY, wait_for, &done));
        ok(cuMemcpyHtoD_v2_ptds(d, source, size));
        __atomic_store_n(&done, true, __ATOMIC_RELEASE);
        ok(cuCtxSynchronize());
        ok(cuMemcpyDtoH(back, d, size));
        check(back, source, size, "behind");
    }
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"foreign", foreign},
                                        {"green", green},
                                        {"rings", rings},
                                        {"synchronous", synchronous},
                                        {"invalidated", invalidated},
                                        {"early", early},
                                        {"beginning", beginning},
                                        {"behind", behind}};
    return run_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
