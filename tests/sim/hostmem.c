/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: allocated by the driver, or registered memory of the program. */
#include "copy.h"
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALLOC_FLAGS                                                                                \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
/* The flag IOMEMORY is refused, because no memory here belongs to a device. */
#define REGISTER_FLAGS                                                                             \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult allocate(struct sim_context *context, void **ret, size_t size, unsigned flags)
{
    pthread_mutex_lock(&sim_lock);
    CUresult result = sim_unsafe();
    pthread_mutex_unlock(&sim_lock);
    if (result)
        return result;
    if (!ret || (flags & ~(unsigned)ALLOC_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    *ret = NULL;
    if (!size)
        return CUDA_SUCCESS;
    struct sim_range *range = calloc(1, sizeof *range);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->kind = sim_host_alloc;
    range->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
    range->context = context;
    range->device = context->device;
    pthread_mutex_lock(&sim_lock);
    if (sim_pinned_alloc(range, size, flags & CU_MEMHOSTALLOC_WRITECOMBINED)) {
        sim_range_add(range);
        *ret = range->backing;
    } else {
        free(range);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuMemHostAlloc(void **ret, size_t size, unsigned flags)
{
    SIM_ENTER_CONTEXT("cuMemHostAlloc", context);
    return allocate(context, ret, size, flags);
}

CUresult cuMemAllocHost_v2(void **ret, size_t size)
{
    SIM_ENTER_CONTEXT("cuMemAllocHost_v2", context);
    return allocate(context, ret, size, 0);
}

/* The caller holds the lock. Removes the range when its context is idle. */
static void take_out(struct sim_range *range)
{
    uintptr_t start = range->start;
    sim_wait_context(range->context);
    range = sim_range_at(start); /* another thread may have removed it first */
    if (range && range->kind == sim_host_alloc)
        sim_pinned_free(range);
    if (range)
        sim_range_remove(range);
}

/*
 * Returns the error of the current context, if there is one, or of a capture that forbids the free.
 */
static CUresult without_trouble(void)
{
    struct sim_context *context;
    const CUresult result = sim_context_current(&context);
    return !result ? sim_unsafe() : result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result;
}

CUresult cuMemFreeHost(void *pointer)
{
    SIM_ENTER("cuMemFreeHost");
    pthread_mutex_lock(&sim_lock);
    CUresult result = without_trouble();
    struct sim_range *range = sim_range_at((uintptr_t)pointer);
    if (!result && pointer) {
        if (range && range->kind == sim_host_alloc && range->start == (uintptr_t)pointer)
            take_out(range);
        else
            result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

/* Files that cuInit opens, as the driver does, because programs may forbid open afterwards. */
static struct kept {
    const char *path;
    int fd;
    struct stat file;
} kept_files[] = {
    /* /proc/self fails if the main thread has ended. */
    [sim_file_maps] = {.path = "/proc/thread-self/maps"},
    [sim_file_zero] = {.path = "/dev/zero"},
};

/* Uses a high descriptor number, because a program may replace low ones by dup2. */
static void open_file(struct kept *file)
{
    const int fd =
        open(file->path, (file == &kept_files[sim_file_zero] ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    file->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 900);
    if (file->fd < 0)
        file->fd = fd;
    else
        close(fd);
    fstat(file->fd, &file->file);
}

void sim_files_open(void)
{
    for (int i = 0; i < sim_file_count; i++)
        open_file(&kept_files[i]);
}

/* Opens the file again if the program has closed its descriptor. */
int sim_file(enum sim_file which)
{
    struct kept *file = &kept_files[which];
    struct stat now;
    if (fstat(file->fd, &now) != 0 || now.st_dev != file->file.st_dev ||
        now.st_ino != file->file.st_ino)
        open_file(file);
    return file->fd;
}

static FILE *open_maps(void)
{
    const int fd = fcntl(sim_file(sim_file_maps), F_DUPFD_CLOEXEC, 900);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "re");
    if (maps)
        rewind(maps);
    return maps;
}

/* Returns whether the whole range is mapped with at least that access. */
static bool accessible(uintptr_t start, size_t size, bool writable)
{
    char line[512];
    uintptr_t reached = start;
    FILE *maps = open_maps();
    while (maps && reached < start + size && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || to <= reached)
            continue;
        if (from > reached || access[0] != 'r' || (writable && access[1] != 'w'))
            break;
        reached = to;
    }
    if (maps)
        fclose(maps);
    return reached >= start + size;
}

static CUresult pin(void *pointer, size_t size, unsigned flags)
{
    struct sim_context *context;
    uintptr_t start = (uintptr_t)pointer;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    pthread_mutex_lock(&sim_lock);
    sim_await_copies();
    result = sim_unsafe();
    struct sim_range *range = NULL;
    if (result)
        ;
    else if (!pointer || !size || start + size < start || (flags & ~(unsigned)REGISTER_FLAGS))
        result = CUDA_ERROR_INVALID_VALUE;
    else if ((range = sim_range_meets(start, size)))
        result = range->kind == sim_registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                               : CUDA_ERROR_INVALID_VALUE;
    else if (!accessible(start, size, !(flags & CU_MEMHOSTREGISTER_READ_ONLY)))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!(range = calloc(1, sizeof *range)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        range->kind = sim_registered;
        range->start = start;
        range->size = size;
        range->map_start = start & ~(SIM_PAGE - 1);
        range->map_size = ((start + size + SIM_PAGE - 1) & ~(SIM_PAGE - 1)) - range->map_start;
        range->backing = pointer;
        range->flags = CU_MEMHOSTALLOC_DEVICEMAP | (flags & CU_MEMHOSTREGISTER_PORTABLE);
        range->context = context;
        range->device = context->device;
        sim_range_add(range);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
    SIM_ENTER("cuMemHostRegister_v2");
    return pin(pointer, size, flags);
}

CUresult cuMemHostRegister(void *pointer, size_t size, unsigned flags)
{
    SIM_ENTER("cuMemHostRegister");
    return pin(pointer, size, flags);
}

/* Like a free, this needs no current context. */
CUresult cuMemHostUnregister(void *pointer)
{
    SIM_ENTER("cuMemHostUnregister");
    pthread_mutex_lock(&sim_lock);
    sim_await_copies();
    CUresult result = without_trouble();
    struct sim_range *range = sim_range_at((uintptr_t)pointer);
    if (result)
        ;
    else if (!pointer ||
             (range && (range->kind != sim_registered || range->start != (uintptr_t)pointer)))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!range)
        result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    else
        take_out(range);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

/* The caller holds the lock. */
static struct sim_range *pinned(const void *pointer)
{
    struct sim_range *range = sim_range_at((uintptr_t)pointer);
    return range && (range->kind == sim_host_alloc || range->kind == sim_registered) ? range : NULL;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer)
{
    SIM_ENTER_CONTEXT("cuMemHostGetFlags", context);
    (void)context;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = pinned(pointer);
    if (range)
        *flags = range->flags;
    pthread_mutex_unlock(&sim_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret, void *pointer, unsigned flags)
{
    SIM_ENTER_CONTEXT("cuMemHostGetDevicePointer_v2", context);
    (void)context;
    if (!ret || flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = pinned(pointer);
    if (range)
        *ret = (CUdeviceptr)(uintptr_t)pointer;
    pthread_mutex_unlock(&sim_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
