/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/attach/logging.h"

#include "config/startup_env.h"
#include "preload/hook/attach/thread_start.h"
#include "preload/hook/originals/driver.h"
#include "preload/malloc/start.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/journal.h"
#include "preload/trace/stall.h"
#include "preload/trace/step_log.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/prctl.h>

/*
 * Finds the GPU of the current context. The driver answers these queries from stored values,
 * without waiting.
 */
static bool current_gpu(struct gf_stall_gpu *ret)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext context = NULL;
    CUdevice device;

    /*
     * Without a context, cuCtxGetDevice would fail, and CUDA tools would report that as an error of
     * the program.
     */
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

static void before_quick_exit(void)
{
    gf_journal_before_exit(gf_step_log_flush);
}

void gf_logging_finish(void)
{
    gf_step_log_flush();
    gf_journal_put_exit();
    gf_journal_finish();
}

void gf_logging_cuda(void)
{
    const struct gf_options *options = gf_startup_env_options();

    gf_start();
    gf_start_watch(options);
    gf_stall_watch_driver((uint64_t)options->stall_us * 1000,
                          (uint64_t)options->stall_wait_us * 1000, current_gpu);
    gf_copy_waits_start((uint64_t)options->copy_wait_us * 1000);
    gf_journal_share();
    if (gf_journal_wanted())
        at_quick_exit(before_quick_exit); /* because quick_exit calls libc's _exit, not the hook */
}

static void *write_log(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-log");
    gf_journal_serve();
    return unused;
}

void gf_logging_serve(void)
{
    if (gf_journal_wanted())
        gf_thread_start_own(write_log, NULL);
}
