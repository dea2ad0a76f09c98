/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads that use one stream: shared CASE.
 *
 * gate: as soon as the stream is busy, the other thread puts a host function on it that waits until the copy's call has
 * returned. holds, holds-back: the other thread submits while it holds a lock that the copying thread's handler of SIGSEGV
 * needs, in the middle of a copy to or from the device. early BYTES WORK: whether an asynchronous copy returns before the
 * stream's earlier work has ended. early-legacy, early-own: the work is on the legacy stream, before a copy on a blocking stream
 * or on the thread's own stream. early-unlisted: the copy is on the legacy stream, and the work on a blocking stream whose first
 * calls are made in a capture. pending HOW: a copy waits for an earlier result. fault: another thread puts it on the stream
 * during a fault of the copy before. relisted: a thread waits meanwhile for the work before it. destroyed, released: it is on a
 * stream that is destroyed, or whose context loses one reference, kept: or whose context, a primary one, cannot be destroyed,
 * ended: on the own stream of a thread that ends. Then the copy is on the legacy stream. queue: the other thread keeps
 * kernels queued; prints whether a copy waits for a few of them only. reused: as holds, with a copy that the driver does not
 * let wait. While the handler runs, the other thread makes copies behind work that ends after the copy's call, and then
 * captures the copy's stream. fetches: the other thread ends the hold of a copy, whose handler then permits a page at a
 * time, for each of which it waits for a third thread's copies on other streams. stale: a host function of the other thread
 * changes the source of a synchronous copy. place: a host function looks at the destination of a copy from the device.
 */
#include "kit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE (16 * MIB) /* twice the ring of most cases */
#define ORDERED (4 * MIB)
#define ROUNDS 6

static CUcontext context;
static CUstream stream, another, earlier; /* earlier: the stream of the work before a copy */
static CUdeviceptr device, small;
static unsigned char *host;
static CUfunction spin;
static unsigned long long spin_ns;

static void prepare(void)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry spin(.param .u64 ns)\n{\n"
                               ".reg .u64 %a, %b, %n;\n.reg .pred %p;\n"
                               "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"
                               "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"
                               "setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n";
    CUmodule module;
    MUST(cu.cuModuleLoadData(&module, text));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    stream = earlier = kit_stream();
    device = kit_device(LARGE);
    small = kit_device(4096);
    host = kit_pageable(LARGE);
    kit_complete_ring(device, host, LARGE, stream);
}

static void launch(void)
{
    void *arguments[] = {&spin_ns};
    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, earlier, arguments, NULL));
}

/* gate */

static sem_t returned;
static volatile bool over; /* the copy's call has returned */

static void wait_for_copy(void *unused)
{
    (void)unused;
    sem_wait(&returned);
}

static void put_behind(void *unused)
{
    (void)unused;
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    MUST(cu.cuLaunchHostFunc(stream, wait_for_copy, NULL));
}

static void gate(void)
{
    sem_init(&returned, 0, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        over = false;
        kit_thread(context, put_behind, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, LARGE, stream));
        over = true;
        sem_post(&returned);
        kit_join();
        MUST(cu.cuStreamSynchronize(stream));
    }
}

/* holds */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t locked, faulted;

static void on_fault(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)info, (void)unused;
    sem_post(&faulted);
    pthread_mutex_lock(&lock);
    mprotect(host, LARGE, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void submit_locked(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    sem_post(&locked);
    sem_wait(&faulted);
    kit_sleep_us(20000);
    MUST(cu.cuMemsetD8Async(small, 1, 4096, stream));
    pthread_mutex_unlock(&lock);
}

static void holds(bool to_host)
{
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    unsigned char *const back = kit_huge(LARGE);

    sem_init(&locked, 0, 0);
    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(host, (int)i + 2, LARGE);
        memset(back, (int)i + 2, LARGE);
        if (to_host) {
            MUST(cu.cuMemcpyHtoDAsync_v2(device, back, LARGE, stream));
            MUST(cu.cuStreamSynchronize(stream));
            memset(host, 0, LARGE);
        }
        kit_thread(context, submit_locked, NULL);
        sem_wait(&locked);
        mprotect(host + LARGE / 2, MIB, to_host ? PROT_READ : PROT_NONE);
        if (to_host)
            MUST(cu.cuMemcpyDtoHAsync_v2(host, device, LARGE, stream));
        else
            MUST(cu.cuMemcpyHtoDAsync_v2(device, host, LARGE, stream));
        kit_join();
        if (!to_host) {
            memset(back, 0, LARGE);
            MUST(cu.cuMemcpyDtoHAsync_v2(back, device, LARGE, stream));
        }
        MUST(cu.cuStreamSynchronize(stream));
        WANT(memcmp(host, back, LARGE) == 0 && host[0] == i + 2 && host[LARGE - 1] == i + 2);
    }
}

/* reused */

static void on_slow_fault(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)info, (void)unused;
    sem_post(&faulted);
    kit_sleep_us(200000);
    mprotect(host, LARGE, PROT_READ | PROT_WRITE);
}

/* The copies use all slots of the ring, and so those whose DMAs have ended again. */
static void copy_then_capture(void *unused)
{
    unsigned char *const from = kit_pageable(MIB);
    CUgraph graph;
    size_t nodes = 1;

    (void)unused;
    sem_wait(&faulted);
    while (cu.cuStreamQuery(stream) != CUDA_SUCCESS)
        ;
    for (unsigned i = 0; i < 100; i++)
        MUST(cu.cuMemcpyHtoDAsync_v2(device + LARGE / 2, from, MIB / 8, another));
    MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    sem_wait(&returned);
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphGetNodes(graph, NULL, &nodes));
    WANT(nodes == 0);
}

static void reused(void)
{
    const struct sigaction action = {.sa_sigaction = on_slow_fault, .sa_flags = SA_SIGINFO};
    uint32_t *const gate = kit_pinned(sizeof(*gate));

    sem_init(&faulted, 0, 0);
    sem_init(&returned, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    another = kit_stream();
    kit_hold(another, gate);
    memset(host, 9, 2 * MIB);
    mprotect(host + MIB, 4096, PROT_NONE);
    kit_thread(context, copy_then_capture, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, 2 * MIB, stream));
    sem_post(&returned);
    kit_release(gate);
    kit_join();
    MUST(cu.cuCtxSynchronize());
    memset(host, 0, 2 * MIB);
    MUST(cu.cuMemcpyDtoH_v2(host, device, 2 * MIB));
    for (size_t at = 0; at < 2 * MIB; at += 4096)
        WANT(host[at] == 9);
}

/* fetches */

#define FETCHED (LARGE / 2)
static sem_t asked, fetched;

static void on_one_page(int number, siginfo_t *info, void *unused)
{
    static unsigned faults;

    (void)number, (void)unused;
    sem_post(faults ? &asked : &faulted);
    if (faults++ == 0)
        kit_sleep_us(200000);
    else
        sem_wait(&fetched);
    mprotect(host + FETCHED / 4 * 3, 4 * 4096, PROT_NONE);
    mprotect((void *)((uintptr_t)info->si_addr & ~UINT64_C(4095)), 4096, PROT_READ | PROT_WRITE);
}

static void submit_at_fault(void *unused)
{
    (void)unused;
    sem_wait(&faulted);
    MUST(cu.cuMemsetD8Async(small, 1, 4096, stream));
}

static void fetch(void *unused)
{
    unsigned char *const to = kit_pageable(4 * MIB);

    (void)unused;
    for (sem_wait(&asked); !over; sem_wait(&asked)) {
        MUST(cu.cuMemcpyDtoH_v2(to, device + LARGE / 2, 4 * MIB));
        MUST(cu.cuMemcpyHtoD_v2(device + LARGE / 2, to, 4 * MIB));
        sem_post(&fetched);
    }
}

static void fetches(void)
{
    const struct sigaction action = {.sa_sigaction = on_one_page, .sa_flags = SA_SIGINFO};
    unsigned char *const back = kit_pageable(FETCHED);

    sem_init(&faulted, 0, 0);
    sem_init(&asked, 0, 0);
    sem_init(&fetched, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    memset(host, 9, FETCHED);
    mprotect(host + FETCHED / 4, 4096, PROT_NONE);
    mprotect(host + FETCHED / 4 * 3, 4 * 4096, PROT_NONE);
    kit_thread(context, submit_at_fault, NULL);
    kit_thread(context, fetch, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, FETCHED, stream));
    MUST(cu.cuMemcpyDtoDAsync_v2(device + LARGE / 2, device, FETCHED, stream));
    over = true;
    sem_post(&asked);
    kit_join();
    MUST(cu.cuMemcpyDtoHAsync_v2(back, device + LARGE / 2, FETCHED, stream));
    for (size_t at = 0; at < FETCHED; at += 4096)
        WANT(back[at] == 9);
}

/* early */

#define EARLY_ROUNDS 20
static volatile uint32_t *value; /* page-locked */

static void count(void *unused)
{
    (void)unused;
    (*value)++;
}

static void copy_in_graph(void *to)
{
    static CUgraphExec executable;
    CUgraph graph;

    if (!executable) {
        MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cu.cuMemcpyDtoHAsync_v2(to, small, 4, stream));
        MUST(cu.cuStreamEndCapture(stream, &graph));
        MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    }
    MUST(cu.cuGraphLaunch(executable, stream));
}

/*
 * Puts work with a visible result on the stream: after it, *value is i. With "kernel", no result is
 * visible.
 */
static void submit_work(const char *work, uint32_t i, CUevent event)
{
    void *const to = (void *)(uintptr_t)value;
    const CUDA_MEMCPY2D block = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = small,
                                 .dstMemoryType = CU_MEMORYTYPE_HOST,
                                 .dstHost = to,
                                 .WidthInBytes = 4,
                                 .Height = 1};

    MUST(cu.cuMemsetD32Async(small, i, 1, earlier));
    launch();
    if (strcmp(work, "copy") == 0)
        MUST(cu.cuMemcpyDtoHAsync_v2(to, small, 4, earlier));
    else if (strcmp(work, "any") == 0)
        MUST(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, small, 4, stream));
    else if (strcmp(work, "block") == 0)
        MUST(cu.cuMemcpy2DAsync_v2(&block, stream));
    else if (strcmp(work, "graph") == 0)
        copy_in_graph(to);
    else if (strcmp(work, "function") == 0)
        MUST(cu.cuLaunchHostFunc(stream, count, NULL));
    MUST(cu.cuEventRecord(event, earlier));
}

/* The predefined handle means another stream in another context. */
static void wait_elsewhere(void)
{
    static CUcontext other;

    if (!other)
        MUST(cu.cuCtxCreate_v2(&other, 0, 0));
    MUST(cu.cuCtxSetCurrent(other));
    MUST(cu.cuStreamSynchronize(earlier));
    MUST(cu.cuCtxSetCurrent(context));
}

/*
 * "synced": the program waits for the visible results of each round itself. "elsewhere": it waits for
 * the stream of this handle in another context.
 */
static void early(size_t bytes, const char *work, const char *how)
{
    unsigned old = 0;
    CUevent event;
    const char *const longer = getenv("EARLY_MS"); /* a copy that does not wait is faster */

    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    value = kit_pinned(4);
    spin_ns = 1000000ULL * (longer ? strtoul(longer, NULL, 10) : 3);
    for (unsigned i = 1; i <= EARLY_ROUNDS; i++) {
        submit_work(work, i, event);
        if (strcmp(how, "elsewhere") == 0)
            wait_elsewhere();
        if (strcmp(how, "synced") == 0) {
            MUST(cu.cuStreamSynchronize(earlier));
            launch();
            MUST(cu.cuEventRecord(event, earlier));
        }
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, bytes, stream));
        old += cu.cuEventQuery(event) != CUDA_SUCCESS;
        if (strcmp(work, "kernel") != 0 && cu.cuEventQuery(event) == CUDA_SUCCESS)
            WANT(*value == i);
    }
    MUST(cu.cuStreamSynchronize(stream));
    puts(old == 0 ? "always waits" : old >= EARLY_ROUNDS - 2 ? "does not wait" : "waits sometimes");
}

/* pending */

static CUevent submitted;

static void submit_result(void *at_fault)
{
    if (at_fault)
        sem_wait(&faulted);
    submit_work("copy", 7, submitted);
}

static void await_earlier(void *unused)
{
    (void)unused;
    MUST(cu.cuStreamSynchronize(earlier));
}

static void use_own_streams(void)
{
    for (unsigned i = 0; i < 64; i++) {
        kit_thread(context, await_earlier, NULL);
        kit_join();
    }
}

static void release_a_reference(void)
{
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuDevicePrimaryCtxRelease_v2(0));
}

static void result_at_fault(void)
{
    const struct sigaction action = {.sa_sigaction = on_slow_fault, .sa_flags = SA_SIGINFO};
    static bool yes = true;

    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    mprotect(host + ORDERED, 4096, PROT_NONE);
    kit_thread(context, submit_result, &yes);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, 2 * ORDERED, stream));
    kit_join();
}

static void result_when_relisted(void)
{
    submit_work("copy", 1, submitted);
    kit_thread(context, await_earlier, NULL);
    kit_sleep_us(50000);
    release_a_reference();
    spin_ns *= 2;
    submit_result(NULL);
    kit_join();
}

static void result_of_ended_thread(void)
{
    earlier = CU_STREAM_PER_THREAD;
    use_own_streams();
    kit_thread(context, submit_result, NULL);
    kit_join();
    use_own_streams();
}

static void pending(const char *how)
{
    MUST(cu.cuEventCreate(&submitted, CU_EVENT_DISABLE_TIMING));
    value = kit_pinned(4);
    spin_ns = 200000000;
    if (strcmp(how, "fault") == 0) {
        result_at_fault();
    } else if (strcmp(how, "relisted") == 0) {
        result_when_relisted();
    } else {
        stream = CU_STREAM_LEGACY;
        MUST(cu.cuStreamCreate(&earlier, CU_STREAM_DEFAULT));
        how[0] == 'e' ? result_of_ended_thread() : submit_result(NULL);
        if (how[0] == 'r')
            release_a_reference();
        else if (how[0] == 'd')
            MUST(cu.cuStreamDestroy_v2(earlier));
        else if (how[0] == 'k')
            WANT(cu.cuCtxDestroy_v2(context) == CUDA_ERROR_INVALID_CONTEXT);
    }
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, ORDERED, stream));
    WANT(*value == 7);
}

/* queue */

#define QUEUED 4
static volatile bool stop;
static volatile unsigned long launched;

static void keep_busy(void *unused)
{
    CUevent event[QUEUED];

    (void)unused;
    for (unsigned i = 0; i < QUEUED; i++)
        MUST(cu.cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
    for (unsigned long i = 0; !stop; launched = ++i) {
        if (i >= QUEUED)
            MUST(cu.cuEventSynchronize(event[i % QUEUED]));
        launch();
        MUST(cu.cuMemsetD8Async(device, i & 127, LARGE, stream));
        MUST(cu.cuEventRecord(event[i % QUEUED], stream));
    }
}

static void queue(void)
{
    unsigned long waits[7];

    spin_ns = 10000000;
    kit_thread(context, keep_busy, NULL);
    while (launched < 2 * QUEUED)
        kit_sleep_us(1000);
    for (unsigned i = 0; i < 7; i++) {
        const unsigned long before = launched;
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, LARGE, stream));
        waits[i] = launched - before;
        for (size_t at = 0; at < LARGE; at += 4096)
            WANT(host[at] == host[0]);
    }
    stop = true;
    kit_join();
    unsigned many = 0;
    for (unsigned i = 0; i < 7; i++)
        many += waits[i] > 3 * QUEUED;
    puts(many < 3 ? "a copy waits for the kernels before it" : "a copy waits for later kernels");
}

/* stale, place */

#define TURNS 150
static pthread_barrier_t turn;
static volatile unsigned unplaced;

static void renew_source(void *unused)
{
    (void)unused;
    memset(host, 20, ORDERED);
}

static void look_at_destination(void *unused)
{
    (void)unused;
    unplaced = 0;
    for (size_t i = 0; i < ORDERED; i += 4096)
        unplaced += host[i] != 1;
}

/*
 * Submits work beside the copy. The last part shows whether all of it came before the copy, or the
 * first part that all of it came after.
 */
static void submit_beside(void *is_stale)
{
    for (unsigned i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&turn);
        for (unsigned k = 0; k < 10; k++)
            MUST(cu.cuMemsetD8Async(small, 1, 64, stream));
        if (is_stale) {
            MUST(cu.cuLaunchHostFunc(stream, renew_source, NULL));
            MUST(cu.cuMemcpyDtoHAsync_v2((void *)(uintptr_t)value, device, 4, stream));
        } else {
            MUST(cu.cuMemsetD8Async(device, 2, ORDERED, stream));
            MUST(cu.cuLaunchHostFunc(stream, look_at_destination, NULL));
        }
        MUST(cu.cuStreamSynchronize(stream));
        pthread_barrier_wait(&turn);
    }
}

static void stale(void)
{
    unsigned char end[2];

    stream = CU_STREAM_LEGACY;
    for (unsigned i = 0; i < TURNS; i++) {
        memset(host, 10, ORDERED);
        MUST(cu.cuMemsetD8_v2(device, 1, ORDERED));
        MUST(cu.cuStreamSynchronize(stream));
        pthread_barrier_wait(&turn);
        kit_sleep_us(i % 30);
        MUST(cu.cuMemcpyHtoD_v2(device, host, ORDERED));
        pthread_barrier_wait(&turn);
        MUST(cu.cuMemcpyDtoH_v2(&end[0], device, 1));
        MUST(cu.cuMemcpyDtoH_v2(&end[1], device + ORDERED - 1, 1));
        if (*value == 0x01010101) /* the other thread's work was first */
            WANT(end[0] == 20 && end[1] == 20);
    }
}

static void place(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        memset(host, 10, ORDERED);
        MUST(cu.cuMemsetD8Async(device, 1, ORDERED, stream));
        MUST(cu.cuStreamSynchronize(stream));
        pthread_barrier_wait(&turn);
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, ORDERED, stream));
        pthread_barrier_wait(&turn);
        WANT(host[0] == host[ORDERED - 1]);
        WANT(host[0] != 1 || unplaced == 0);
    }
}

static void beside(bool is_stale)
{
    static bool yes = true;

    value = kit_pinned(4);
    pthread_barrier_init(&turn, NULL, 2);
    kit_thread(context, submit_beside, is_stale ? &yes : NULL);
    is_stale ? stale() : place();
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    context = kit_start();
    prepare();
    if (strncmp(argv[1], "early-", 6) == 0) {
        earlier = stream = CU_STREAM_LEGACY;
        if (argv[1][6] == 'u')
            MUST(cu.cuStreamBeginCapture_v2(kit_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
        if (argv[1][6] == 'o')
            stream = CU_STREAM_PER_THREAD;
        else
            MUST(cu.cuStreamCreate(argv[1][6] == 'u' ? &earlier : &stream, CU_STREAM_DEFAULT));
    }
    if (strcmp(argv[1], "gate") == 0)
        gate();
    else if (strcmp(argv[1], "holds") == 0)
        holds(false);
    else if (strcmp(argv[1], "holds-back") == 0)
        holds(true);
    else if (strcmp(argv[1], "reused") == 0)
        reused();
    else if (strcmp(argv[1], "fetches") == 0)
        fetches();
    else if (strncmp(argv[1], "early", 5) == 0 && argc >= 4)
        early(strtoul(argv[2], NULL, 10), argv[3], argc == 5 ? argv[4] : "");
    else if (strcmp(argv[1], "pending") == 0 && argc == 3)
        pending(argv[2]);
    else if (strcmp(argv[1], "queue") == 0)
        queue();
    else if (strcmp(argv[1], "stale") == 0)
        beside(true);
    else if (strcmp(argv[1], "place") == 0)
        beside(false);
    else
        return 2;
    puts("done");
    fflush(stdout);
    _exit(0);
}
