/* SPDX-License-Identifier: Apache-2.0 */
/* Large pinned buffers for tests, on a driver whose results the test sets. */
#ifndef GF_TESTS_PINNED_BUFFER_KIT_H
#define GF_TESTS_PINNED_BUFFER_KIT_H

#include "unit.h"

#include "engine/transfer/range_policy.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/setup.h"

#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static struct {
    CUresult on_register, on_unregister, on_synchronize;
    void *at;
    size_t bytes;
    unsigned flags;
    unsigned unregistered, synchronized;
    bool ends;                /* the context ends during a free */
    CUcontext owner, current; /* only `owner` knows the memory; NULL: each context does */
    bool keeps_owner;         /* the driver knows the memory but not its context */
} driver;

static inline CUresult host_register(void *at, size_t bytes, unsigned flags)
{
    driver.at = at;
    driver.bytes = bytes;
    driver.flags = flags;
    return driver.on_register;
}

static inline CUresult host_unregister(void *at)
{
    driver.at = at;
    driver.unregistered++;
    if (driver.ends)
        gf_pinned_buffer_forget(5);
    return driver.owner && driver.current != driver.owner ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                                          : driver.on_unregister;
}

static inline CUresult owner_of(void *ret, CUpointer_attribute what, CUdeviceptr at)
{
    assert_int_equal(what, CU_POINTER_ATTRIBUTE_CONTEXT);
    assert_int_equal(at, (uintptr_t)driver.at);
    *(CUcontext *)ret = driver.keeps_owner ? NULL : driver.owner;
    return driver.owner ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static inline CUresult push(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    driver.current = context;
    return CUDA_SUCCESS;
}

static inline CUresult pop(CUcontext *ret)
{
    *ret = driver.current;
    driver.current = NULL;
    return CUDA_SUCCESS;
}

static inline CUresult synchronize(void)
{
    driver.synchronized++;
    return driver.on_synchronize;
}

static const struct gf_cuda cuda = {.cuMemHostRegister_v2 = host_register,
                                    .cuCtxSynchronize = synchronize,
                                    .cuPointerGetAttribute = owner_of,
                                    .cuCtxPushCurrent_v2 = push,
                                    .cuCtxPopCurrent_v2 = pop,
                                    .cuMemHostUnregister = host_unregister};

static inline int start(void **state)
{
    static const struct gf_options defaults;
    (void)state;
    if (!gf_setup.options)
        gf_setup = (struct gf_transfer_setup){.options = &defaults, .cuda = &cuda};
    memset(&driver, 0, sizeof(driver));
    return 0;
}

static inline bool is_mapped(const void *at)
{
    unsigned char there;
    return mincore((void *)(uintptr_t)at, 4096, &there) == 0;
}

static inline struct gf_pool *pool(void)
{
    struct gf_cpus cpus = {0};
    gf_set_add(&cpus, 0);
    struct gf_pool *made = gf_pool_get(3, &cpus, &(struct gf_pool_size){.threads = 6});
    assert_int_equal(gf_pool_start(made), 0);
    return made;
}

static const struct gf_range_policy first_touch;

static inline bool alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret,
                         struct gf_fault *ret_fault)
{
    const struct gf_pinned_buffer_request wish = {
        .cuda = &cuda, .pool = pool(), .context = 5, .policy = &first_touch, .flags = flags};
    return gf_pinned_buffer_alloc(&wish, pp, bytes, flags, ret, ret_fault);
}

static inline char *get(size_t bytes)
{
    void *p = NULL;
    CUresult result;
    struct gf_fault fault;
    assert_true(alloc(&p, bytes, 1, &result, &fault));
    assert_int_equal(result, CUDA_SUCCESS);
    return p;
}

static struct gf_fault fault_of_free;
static uint64_t keep_bytes; /* most bytes of mappings that frees keep */

static inline uint64_t keep_room(void)
{
    return keep_bytes;
}

static inline bool give(void *p, CUresult *ret)
{
    return gf_pinned_buffer_free(&cuda, p, keep_room, ret, &fault_of_free);
}

#endif
