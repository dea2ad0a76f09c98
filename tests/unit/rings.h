/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacements for tests of rings: a driver whose events are numbers, system calls that fail, and a
 * clock that runs ahead.
 */
#ifndef RINGS_H
#define RINGS_H

#include "huge_pool.h"
#include "unit.h"

#include "os/headroom.h"
#include "engine/transfer/copy/ring.h"
#include "engine/transfer/copy/pipeline.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The system calls that fail, and how far the clock runs ahead. */
static struct {
    bool maps;            /* mmap fails */
    int advice;           /* madvise fails with this advice */
    _Atomic time_t ahead; /* seconds */
    uint64_t left;        /* headroom in bytes; 0: this machine's */
} computer;

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_HUGETLB)
        return map_from_huge_pool(size, protection, flags);
    errno = EPERM;
    return computer.maps ? MAP_FAILED : __real_mmap64(at, size, protection, flags, fd, offset);
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    errno = ENOSYS;
    return advice == computer.advice ? -1 : __real_madvise(at, size, advice);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    const int result = __real_clock_gettime(clock, ret);
    ret->tv_sec += gf_load_relaxed(&computer.ahead);
    return result;
}

/* Replaces the wait of a copy for memory of the ring. */
static struct {
    unsigned count;     /* number of waits */
    void (*then)(void); /* called in each wait */
} naps;

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    (void)clock, (void)flags, (void)time, (void)left;
    naps.count++;
    if (naps.then)
        naps.then();
    return 0;
}

void __real_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    __real_gf_headroom_read(root, node, ret);
    if (computer.left)
        ret->bytes = computer.left;
}

/* Notifications for the event log. */
static struct {
    char text[200];
    unsigned offs, rings;
} told;

static inline void hear(enum gf_transfer_event event, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    *(event == gf_transfer_off ? &told.offs : &told.rings) += 1;
    snprintf(told.text, sizeof(told.text), "%s", text);
    pthread_mutex_unlock(&lock);
}

/* A driver whose events are numbers. Events up to `come` have completed. */
static struct {
    _Atomic uintptr_t made;
    uintptr_t come;
    bool fails; /* waits for events fail */
    CUresult record, query, create, enlist, remove;
    _Atomic unsigned registered, removed;
    void (*removes)(void); /* called in each removal */
    unsigned sent, waited;
    _Atomic unsigned queries;
    _Atomic size_t largest;
} driver;

static inline CUresult create_event(CUevent *ret, unsigned flags)
{
    assert_true(flags & CU_EVENT_DISABLE_TIMING);
    *ret = (CUevent)(gf_add_relaxed(&driver.made, 1) + 1);
    return driver.create;
}

static inline CUresult record_event(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return driver.record;
}

static inline CUresult query_event(CUevent event)
{
    gf_add_relaxed(&driver.queries, 1);
    return driver.query                      ? driver.query
           : (uintptr_t)event <= driver.come ? CUDA_SUCCESS
                                             : CUDA_ERROR_NOT_READY;
}

/* The stream has no unfinished work before a copy. */
static inline CUresult query_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

/* Waiting completes all events, unless it fails. */
static inline CUresult await_event(CUevent event)
{
    (void)event;
    driver.waited++;
    if (driver.fails)
        return CUDA_ERROR_UNKNOWN;
    driver.come = UINTPTR_MAX;
    return CUDA_SUCCESS;
}

static inline CUresult send(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)to, (void)from, (void)bytes, (void)stream;
    driver.sent++;
    return CUDA_SUCCESS;
}

static inline CUresult enlist(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    assert_int_equal((uintptr_t)at % GF_MIB(2), 0);
    for (size_t i = 0; i < bytes; i += 4096) /* pages are zero when they are registered */
        assert_int_equal(((char *)at)[i], 0);
    gf_add_relaxed(&driver.registered, 1);
    if (bytes > gf_load_relaxed(&driver.largest))
        gf_store_relaxed(&driver.largest, bytes);
    return driver.enlist;
}

static inline CUresult unregister(void *at)
{
    assert_non_null(at);
    gf_add_relaxed(&driver.removed, 1);
    if (driver.removes)
        driver.removes();
    return driver.remove;
}

static struct gf_options options = {.stage_ring = GF_SIZE_AUTO};
static struct gf_context context;

static inline struct gf_ring *fresh(uint64_t limit)
{
    static int node = 2000;
    static const struct gf_cpus any;
    memset(&driver, 0, sizeof(driver));
    memset(&context, 0, sizeof(context));
    computer.maps = false;
    computer.advice = 0;
    computer.left = 0;
    gf_store_relaxed(&computer.ahead, 0); /* helpers of an earlier case may read it */
    memset(&told, 0, sizeof(told));
    context.node = -1;
    context.pool = gf_pool_get(
        node++, &any, &(struct gf_pool_size){.threads = 1}); /* the caller copies all pieces */
    options.stage_ring = limit;
    struct gf_ring *ring = gf_ring_of(&context);
    assert_non_null(ring);
    assert_int_equal((uintptr_t)ring % _Alignof(struct gf_ring), 0);
    assert_ptr_equal(gf_ring_of(&context), ring);
    return ring;
}

static inline struct gf_ring *ready(uint64_t limit)
{
    struct gf_ring *ring = fresh(limit);
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    return ring;
}

static inline void pass(time_t seconds)
{
    gf_add_relaxed(&computer.ahead, seconds);
}

static inline CUresult create_stream(CUstream *ret, unsigned flags, int priority)
{
    static int stream;
    (void)flags, (void)priority;
    *ret = (CUstream)&stream;
    return CUDA_SUCCESS;
}

static unsigned askings;

static inline void count_asking(void)
{
    askings++;
}

/* The calls of other threads. The caller has the record 0. */
static struct gf_submit_table submissions;

static inline unsigned own_record(void)
{
    return 0;
}

static inline void set_up(void)
{
    static const struct gf_cuda cuda = {.cuEventCreate = create_event,
                                        .cuEventRecord = record_event,
                                        .cuEventQuery = query_event,
                                        .cuEventSynchronize = await_event,
                                        .cuStreamQuery = query_stream,
                                        .cuMemcpyHtoDAsync_v2 = send,
                                        .cuMemHostRegister_v2 = enlist,
                                        .cuMemHostUnregister = unregister,
                                        .cuStreamCreateWithPriority = create_stream};
    gf_setup = (struct gf_transfer_setup){.options = &options,
                                          .cuda = &cuda,
                                          .submissions = &submissions,
                                          .submitter = own_record,
                                          .notify = hear};
}

#endif
