/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/watch.h"

#include "config/birth.h"
#include "heap/heap.h"
#include "hook/on_fork.h"
#include "hook/on_thread.h"
#include "hook/routes.h"
#include "observe/journal.h"
#include "observe/stall.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/prctl.h>

static void watch(const struct gf_options *options)
{
    gf_journal_open(options->log, gf_birth()->envp, GF_VERSION);
    const struct gf_heap_ops *heap = gf_heap_ops();
    if (!options->stall_us || (heap->mode != gf_heap_mode_replace && !heap->watch))
        return;
    gf_stall_watch((uint64_t)options->stall_us * 1000);
    if (heap->watch)
        heap->watch();
}

void gf_heap_ready(void)
{
    const struct gf_options *options = gf_birth_options();

    gf_on_fork_register_early();
    if (gf_unlikely(*options->log))
        watch(options);
}

/* Both read what the driver keeps of the thread and of the device; neither waits. */
static bool current_gpu(struct gf_stall_gpu *ret)
{
    const struct gf_cuda *cuda = gf_routes_cuda();
    CUcontext context = NULL;
    CUdevice device;

    /* Without one it would be an error, which tools would show as the program's. */
    if (!cuda || !cuda->cuCtxGetCurrent || cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        !context || !cuda->cuCtxGetDevice || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return false;
    ret->device = device;
    if (!cuda->cuDeviceGetPCIBusId ||
        cuda->cuDeviceGetPCIBusId(ret->pci, sizeof(ret->pci), device) != CUDA_SUCCESS)
        *ret->pci = '\0';
    for (char *p = ret->pci; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return true;
}

void gf_watch_cuda(void)
{
    const struct gf_options *options = gf_birth_options();

    watch(options);
    gf_stall_watch_driver((uint64_t)options->stall_us * 1000,
                          (uint64_t)options->stall_wait_us * 1000, current_gpu);
    gf_journal_share();
    if (gf_journal_wanted())
        at_quick_exit(gf_journal_leave); /* which calls libc's own _exit, past ours */
}

static void *serve(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-log");
    gf_journal_serve();
    return unused;
}

void gf_watch_serve(void)
{
    if (gf_journal_wanted())
        gf_on_thread_start_ours(serve, NULL);
}
