/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variable GF_MUTATION names the active mutation. */
#include "engine/transfer/setup/mutation.h"

#include "base/atomic.h"
#include "engine/transfer/memory/vma_query.h"
#include "engine/transfer/setup/setup.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *at;
    size_t bytes;
} kept[KEPT];

bool gf_mutated(const char *name)
{
    static const char *_Atomic active; /* every thread stores the same value */
    const char *mutation = gf_load_relaxed(&active);
    if (!mutation) {
        mutation = getenv("GF_MUTATION") ? getenv("GF_MUTATION") : "";
        gf_store_relaxed(&active, mutation);
    }
    return strcmp(mutation, name) == 0;
}

void gf_mutation_hold(const char *name)
{
    if (gf_mutated(name))
        pthread_mutex_lock(&lock);
}

void gf_mutation_drop(const char *name)
{
    if (gf_mutated(name))
        pthread_mutex_unlock(&lock);
}

void gf_mutation_sleep(const char *name)
{
    if (gf_mutated(name))
        usleep(20000);
}

void gf_mutation_open_file(const void *at)
{
    char name[4096];
    struct gf_vma vma;
    const int fd =
        gf_vma_query((uintptr_t)at, &vma, name, sizeof(name)) ? -1 : open(name, O_RDONLY);
    if (fd >= 0)
        close(fd);
}

bool gf_mutation_keep(void *p, CUresult *ret_result)
{
    size_t bytes = 0;
    void *start = NULL;
    const CUdeviceptr at = (uintptr_t)p;
    bool done = false;
    if (gf_setup.cuda->cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) ||
        gf_setup.cuda->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ||
        start != p)
        return false;
    pthread_mutex_lock(&kept_lock);
    for (int i = 0; i < KEPT && !done; i++)
        if (!kept[i].at) {
            kept[i].at = p;
            kept[i].bytes = bytes;
            done = true;
        }
    pthread_mutex_unlock(&kept_lock);
    *ret_result = CUDA_SUCCESS;
    return done;
}

bool gf_mutation_again(void **pp, size_t bytes, CUresult *ret_result)
{
    bool done = false;
    pthread_mutex_lock(&kept_lock);
    for (int i = 0; i < KEPT && !done; i++)
        if (kept[i].at && kept[i].bytes == bytes) {
            *pp = kept[i].at;
            kept[i].at = NULL;
            done = true;
        }
    pthread_mutex_unlock(&kept_lock);
    *ret_result = CUDA_SUCCESS;
    return done;
}
