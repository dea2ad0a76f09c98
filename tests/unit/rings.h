/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose events are numbers, a computer that refuses, a clock that is ahead: for tests of rings. */
#ifndef RINGS_H
#define RINGS_H

#include "unit.h"

#include "host/headroom.h"
#include "transfer/block.h"
#include "transfer/flow.h"
#include "transfer/ring_parts.h"
#include "transfer/setup.h"
#include "transfer/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* What the system refuses, and how far its clock is ahead. */
static struct {
    bool maps;    /* no mapping is made */
    int advice;   /* this one is not taken */
    time_t ahead; /* seconds; atomic */
    uint64_t left; /* bytes of memory; 0: as it is */
} computer;

void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
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
    ret->tv_sec += __atomic_load_n(&computer.ahead, __ATOMIC_RELAXED);
    return result;
}

void __real_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    __real_gf_headroom_read(root, node, ret);
    if (computer.left)
        ret->bytes = computer.left;
}

/* What the event log is told. */
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

/* A driver whose events are numbers: they have come when `come` has passed them. */
static struct {
    uintptr_t made, come;
    CUresult record, query, create, enlist, remove;
    unsigned registered, removed, sent, waited;
    size_t largest;
} driver;

static inline CUresult create_event(CUevent *ret, unsigned flags)
{
    assert_true(flags & CU_EVENT_DISABLE_TIMING);
    *ret = (CUevent)__atomic_add_fetch(&driver.made, 1, __ATOMIC_RELAXED);
    return driver.create;
}

static inline CUresult record_event(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return driver.record;
}

static inline CUresult query_event(CUevent event)
{
    return driver.query ? driver.query
                        : (uintptr_t)event <= driver.come ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Waiting helps. */
static inline CUresult await_event(CUevent event)
{
    (void)event;
    driver.waited++;
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
    for (size_t i = 0; i < bytes; i += 4096) /* touched before, or this is what touches it */
        assert_int_equal(((char *)at)[i], 0);
    __atomic_add_fetch(&driver.registered, 1, __ATOMIC_RELAXED);
    if (bytes > __atomic_load_n(&driver.largest, __ATOMIC_RELAXED))
        __atomic_store_n(&driver.largest, bytes, __ATOMIC_RELAXED);
    return driver.enlist;
}

static inline CUresult unregister(void *at)
{
    assert_non_null(at);
    __atomic_add_fetch(&driver.removed, 1, __ATOMIC_RELAXED);
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
    memset(&computer, 0, sizeof(computer));
    memset(&told, 0, sizeof(told));
    context.node = -1;
    context.pool = gf_pool_get(node++, &any, 1, 0); /* the caller does all of it */
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
    __atomic_add_fetch(&computer.ahead, seconds, __ATOMIC_RELAXED);
}

static unsigned askings;

static inline void count_asking(void)
{
    askings++;
}

static inline void set_up(void)
{
    static const struct gf_cuda cuda = {.cuEventCreate = create_event,
                                        .cuEventRecord = record_event,
                                        .cuEventQuery = query_event,
                                        .cuEventSynchronize = await_event,
                                        .cuMemcpyHtoDAsync_v2 = send,
                                        .cuMemHostRegister_v2 = enlist,
                                        .cuMemHostUnregister = unregister};
    gf_setup = (struct gf_transfer_setup){.options = &options, .cuda = &cuda, .tell = hear};
}

#endif
