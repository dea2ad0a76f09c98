/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake driver for blocks of pinned memory. It fills its oldest mapping first, and unmaps a mapping
 * when it is empty.
 */
#ifndef BLOCK_DRIVER_H
#define BLOCK_DRIVER_H

#include "unit.h"

#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/setup.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define GRANULE ((size_t)256)
#define GRANULES (GF_PINNED_CHUNK_SIZE / GRANULE)
#define MIB ((size_t)1 << 20)
#define MAPPINGS 64
#define CONTEXT 7

static struct mapping {
    char *at;
    unsigned flags;           /* of the mapping's first block; all its blocks report them */
    unsigned owner[GRANULES]; /* number of the block; 0: free */
    size_t size[GRANULES];    /* bytes of the block that begins here */
    unsigned used;
} mappings[MAPPINGS];

static struct {
    pthread_mutex_t lock;
    unsigned blocks, made, allocs, frees;
    unsigned waits;             /* frees that waited for the device */
    CUresult refuse, fail_free; /* results of allocations and frees */
    void (*meanwhile)(void);    /* called after an allocation, as if by another thread */
    const void *first_freed;    /* the first block that was freed; NULL: none */
} driver;

static size_t find_room(const struct mapping *m, size_t granules)
{
    for (size_t i = 0, run = 0; i < GRANULES; i++) {
        run = m->owner[i] ? 0 : run + 1;
        if (run == granules)
            return i + 1 - granules;
    }
    return GRANULES;
}

static struct mapping *make_mapping(unsigned flags)
{
    struct mapping *made = NULL;
    for (size_t i = 0; i < MAPPINGS && !made; i++)
        if (!mappings[i].at)
            made = &mappings[i];
    if (!made)
        return NULL;
    made->flags = flags;
    made->at = mmap(NULL, GF_PINNED_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    driver.made++;
    return made;
}

static CUresult alloc_block(void **pp, size_t bytes, unsigned flags)
{
    const size_t granules = (bytes + GRANULE - 1) / GRANULE;
    struct mapping *m = NULL;
    size_t first = GRANULES;
    for (size_t i = 0; i < MAPPINGS && first == GRANULES; i++)
        if ((m = &mappings[i])->at)
            first = find_room(m, granules);
    if (first == GRANULES) {
        m = make_mapping(flags);
        first = 0;
    }
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    driver.blocks++;
    for (size_t i = first; i < first + granules; i++)
        m->owner[i] = driver.blocks;
    m->size[first] = bytes;
    m->used++;
    *pp = m->at + first * GRANULE;
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **pp, size_t bytes, unsigned flags)
{
    pthread_mutex_lock(&driver.lock);
    driver.allocs++;
    const CUresult result = driver.refuse ? driver.refuse : alloc_block(pp, bytes, flags);
    pthread_mutex_unlock(&driver.lock);
    if (driver.meanwhile)
        driver.meanwhile();
    return result;
}

static struct mapping *mapping_of(const void *p)
{
    for (size_t i = 0; i < MAPPINGS; i++)
        if (mappings[i].at && (const char *)p >= mappings[i].at &&
            (const char *)p < mappings[i].at + GF_PINNED_CHUNK_SIZE)
            return &mappings[i];
    return NULL;
}

static CUresult free_block(const char *p)
{
    struct mapping *m = mapping_of(p);
    const size_t first = m ? (size_t)(p - m->at) / GRANULE : 0;
    if (!m || (size_t)(p - m->at) % GRANULE || !m->size[first])
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned owner = m->owner[first];
    driver.waits++;
    for (size_t i = first; i < GRANULES && m->owner[i] == owner; i++)
        m->owner[i] = 0;
    m->size[first] = 0;
    if (--m->used == 0) {
        munmap(m->at, GF_PINNED_CHUNK_SIZE);
        m->at = NULL;
    }
    return CUDA_SUCCESS;
}

static CUresult free_host(void *p)
{
    pthread_mutex_lock(&driver.lock);
    driver.frees++;
    driver.first_freed = driver.first_freed ? driver.first_freed : p;
    const CUresult result = driver.fail_free ? driver.fail_free : free_block(p);
    pthread_mutex_unlock(&driver.lock);
    return result;
}

static CUresult unregister(void *p)
{
    return mapping_of(p) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult attribute_of(void *ret, CUpointer_attribute what, CUdeviceptr p)
{
    const struct mapping *m = mapping_of((void *)(uintptr_t)p);
    if (!m)
        fail_msg("an error that the program would not have seen");
    switch (what) {
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(void **)ret = m->at;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)ret = GF_PINNED_CHUNK_SIZE;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute(void *ret, CUpointer_attribute what, CUdeviceptr p)
{
    pthread_mutex_lock(&driver.lock);
    const CUresult result = attribute_of(ret, what, p);
    pthread_mutex_unlock(&driver.lock);
    return result;
}

static CUresult attributes(unsigned count, CUpointer_attribute *what, void **ret, CUdeviceptr p)
{
    assert_int_equal(count, 1);
    assert_int_equal(*what, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    pthread_mutex_lock(&driver.lock);
    *(CUmemorytype *)*ret = mapping_of((void *)(uintptr_t)p) ? CU_MEMORYTYPE_HOST : 0;
    pthread_mutex_unlock(&driver.lock);
    return CUDA_SUCCESS;
}

static const struct gf_cuda cuda = {.cuMemHostAlloc = host_alloc,
                                    .cuMemFreeHost = free_host,
                                    .cuMemHostUnregister = unregister,
                                    .cuPointerGetAttribute = attribute,
                                    .cuPointerGetAttributes = attributes};

static int start(void **state)
{
    (void)state;
    gf_pinned_cache_forget(CONTEXT);
    for (size_t i = 0; i < MAPPINGS; i++)
        if (mappings[i].at)
            munmap(mappings[i].at, GF_PINNED_CHUNK_SIZE);
    memset(mappings, 0, sizeof(mappings));
    memset(&driver, 0, sizeof(driver));
    pthread_mutex_init(&driver.lock, NULL);
    return 0;
}

#endif
