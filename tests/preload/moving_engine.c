/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine whose transfer functions only print the calls of the preload library. With
 * GPUFEED_MACHINE=take it serves each call, with a result of its own. With =fits it says that a
 * batch's members fit, but then declines them. Otherwise it declines each call. A batch's members
 * fit unless their source is odd. With =helper, a separate thread unmaps memory during a copy.
 */
#include "tell.h"

#include "abi_hash.h"
#include "abi/engine_api.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>

#ifndef LEAST
#define LEAST 4096
#endif

static const struct gf_preload *preload;

/* Checks that cancellation is disabled, and causes side effects that the program must not see. */
static bool answer(CUresult *ret_result)
{
    extern CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t) __attribute__((weak));
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (cancel != PTHREAD_CANCEL_DISABLE)
        tell("[not held]\n");
    if (cuMemcpyHtoD_v2) /* the preload library must pass this call through */
        cuMemcpyHtoD_v2(0x1000, (const void *)0x2000, LEAST);
    errno = 99;
    const bool take = strcmp(preload->options->machine, "take") == 0;
    if (ret_result)
        *ret_result = (CUresult)(take ? 66 : 4711);
    return take;
}

static sem_t ended;

static void *helper(void *unused)
{
    const size_t bytes = 64 << 20;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0});
    tell("[unmaps %d]\n", munmap(at, bytes));
    answer(NULL); /* its copy bypasses the engine, too */
    sem_post(&ended);
    return unused;
}

static bool copy(const struct gf_copy_call *call, CUresult *ret_result,
                 struct gf_copy_refusal *ret_refusal, struct gf_copy_wait *ret_wait)
{
    static const char *const ways[] = {"h2d", "d2h", "any", "batched"};
    tell("[copy %s %s %llx %llx %lx stream=%lx]\n", ways[call->way], call->async ? "async" : "sync",
         call->dst, call->src, (unsigned long)call->bytes, (unsigned long)call->stream);
    if (strcmp(preload->options->machine, "helper") == 0 && !preload->start_thread(helper, NULL))
        sem_wait(&ended);
    *ret_refusal = (struct gf_copy_refusal){1, 4711};
    *ret_wait = (struct gf_copy_wait){0};
    return answer(ret_result);
}

static void copy_declined(const struct gf_copy_call *call, const struct gf_copy_refusal *refusal,
                          uint64_t ns)
{
    tell("[declined %lx %u.%u%s]\n", (unsigned long)call->bytes, refusal->direction,
         refusal->reason, ns < 5000000000 ? "" : " late");
    answer(NULL);
}

static bool copy_fits(const struct gf_copy_call *call)
{
    tell("[fits %llx %llx %lx stream=%lx]\n", call->dst, call->src, (unsigned long)call->bytes,
         (unsigned long)call->stream);
    answer(NULL);
    return *preload->options->machine && call->way == gf_copy_batched && call->async &&
           !(call->src & 1);
}

static bool host_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    tell("[alloc %p %lx %x]\n", (void *)pp, (unsigned long)bytes, flags);
    if (!answer(ret_result))
        return false;
    *pp = (void *)0xaa000;
    return true;
}

static bool host_free(void *p, CUresult *ret_result)
{
    tell("[free %p]\n", p);
    return answer(ret_result);
}

static bool host_unregister(void *p, CUresult *ret_result)
{
    tell("[unregister %p]\n", p);
    return answer(ret_result);
}

static bool host_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result)
{
    tell("[register %p %lx %x]\n", p, (unsigned long)bytes, flags);
    return answer(ret_result);
}

static void host_flags(const void *p, unsigned *flags)
{
    tell("[flags %p]\n", p);
    if (answer(NULL))
        *flags ^= 1;
}

static void host_mapping(const void *p, size_t *bytes)
{
    tell("[mapping %p]\n", p);
    if (answer(NULL))
        *bytes += 1;
}

static bool unmap(void *at, size_t bytes)
{
    (void)at;
    tell("[unmapping %lx]\n", (unsigned long)bytes);
    return false;
}

static void context_leaving(CUcontext context, CUdevice device)
{
    tell("[leaving %lx %d]\n", (unsigned long)context, device);
    answer(NULL);
}

static void context_left(CUcontext context, CUdevice device, CUresult result)
{
    tell("[left %lx %d %d]\n", (unsigned long)context, device, (int)result);
    answer(NULL);
}

static void tell_count(const struct gf_hook_counts *tally)
{
    if (tally->bytes)
        tell("[bytes %s %lu: %lu %lu, offered %lu %lu, unfit %lu %lu]\n", tally->name,
             (unsigned long)tally->calls, (unsigned long)tally->copies, (unsigned long)tally->bytes,
             (unsigned long)tally->offered, (unsigned long)tally->offered_bytes,
             (unsigned long)tally->unfit, (unsigned long)tally->unfit_bytes);
}

static __attribute__((destructor)) void at_exit(void)
{
    struct gf_hook_counts counts;

    for (size_t i = 0; preload && preload->hook_counts(i, &counts); i++)
        tell_count(&counts);
}

static void nothing(void)
{
}

static void device_seen(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    (void)device, (void)how, (void)bytes;
}

static int gpu_node(void)
{
    return -1;
}

static const _Atomic unsigned sharers = 3;

static const struct gf_transfer_ops transfer = {
    .copy_least = LEAST,
    .copy_least_shared = LEAST / 4,
    .copy_sharers = &sharers,
    .copy = copy,
#ifndef NO_FITS
    .copy_declined = copy_declined,
    .copy_fits = copy_fits,
#endif
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_unregister = host_unregister,
    .host_register = host_register,
    .host_flags = host_flags,
    .host_mapping = host_mapping,
    .unmap = unmap,
    .context_leaving = context_leaving,
    .context_left = context_left,
};

static const struct gf_engine engine = {
    .abi = GF_ENGINE_ABI,
    .size = sizeof(engine),
    .device_seen = device_seen,
    .joined = nothing,
    .watch = nothing,
    .thread_started = nothing,
    .forked = nothing,
    .gpu_node = gpu_node,
#ifndef NO_TRANSFER
    .transfer = &transfer,
#endif
};

GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_preload *given)
{
    preload = given;
    return &engine;
}
