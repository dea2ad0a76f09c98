/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variable GF_MUTATION names the active mutation. */
#include "mutation.h"

#include "base/atomic.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static void sleep_in_stream(void *unused)
{
    (void)unused;
    usleep(20000);
}

void gf_mutation_mark(CUstream stream)
{
    if (gf_mutated("marks_the_stream"))
        gf_setup.cuda->cuLaunchHostFunc(stream, sleep_in_stream, NULL);
}

/* Ranges that were read ahead. A new range replaces the oldest one. */
enum { STORED = 64 };
static struct {
    const char *at;
    char *bytes;
    size_t size;
} stored[STORED];
static unsigned next_stored;

void gf_mutation_store_ahead(const void *at, size_t bytes)
{
    char *copy = malloc(bytes);
    memcpy(copy, at, bytes);
    pthread_mutex_lock(&kept_lock);
    const unsigned i = next_stored++ % STORED;
    free(stored[i].bytes);
    stored[i].at = at;
    stored[i].bytes = copy;
    stored[i].size = bytes;
    pthread_mutex_unlock(&kept_lock);
}

static void fill_stored(void *to, const char *at, size_t bytes)
{
    pthread_mutex_lock(&kept_lock);
    for (int i = 0; i < STORED; i++) {
        const size_t from = (size_t)(at - stored[i].at);
        if (!stored[i].at || from >= stored[i].size || bytes > stored[i].size - from)
            continue;
        memcpy(to, stored[i].bytes + from, bytes);
        break;
    }
    pthread_mutex_unlock(&kept_lock);
}

/* Opens the file of the range's mapping. Returns -1, or sets *ret_offset to the range's offset. */
static int open_mapped(const void *at, off_t *ret_offset)
{
    char name[4096];
    struct gf_vma vma;
    if (gf_vma_query((uintptr_t)at, &vma, name, sizeof(name)) || !vma.has_file)
        return -1;
    *ret_offset = (off_t)(vma.offset + ((uintptr_t)at - vma.start));
    return open(name, O_RDONLY);
}

void gf_mutation_change_copy(void *to, const void *at, size_t bytes)
{
    off_t offset;
    struct stat file;
    int fd;
    if (gf_mutated("delivers_stale_bytes"))
        fill_stored(to, at, bytes);
    if ((!gf_mutated("reads_the_file") && !gf_mutated("zeroes_the_tail")) ||
        (fd = open_mapped(at, &offset)) < 0)
        return;
    const off_t left = fstat(fd, &file) == 0 ? file.st_size - offset : 0;
    if (gf_mutated("reads_the_file"))
        while (pread(fd, to, bytes, offset) < 0 && errno == EINTR)
            continue;
    else if (left > 0 && left < (off_t)bytes)
        memset((char *)to + left, 0, bytes - (size_t)left);
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
