/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of gpufeed.h. */
#define GPUFEED_BUILDING

#include "gpufeed.h"
#include "preload/attach/attach.h"
#include "preload/trace/step.h"

/* This is longer than needed, because writing a report takes a few milliseconds. */
#define REPORT_WAIT_MS 100

void gpufeed_step(unsigned long long step)
{
    gf_step_mark(step);
}

size_t gpufeed_report(char *text, size_t size)
{
    size_t length = 0;

    GF_WITH_ENGINE(length = engine->report(text, size, REPORT_WAIT_MS));
    return length;
}

int gpufeed_active(void)
{
    return gf_engine() != NULL;
}

int gpufeed_gpu_node(void)
{
    int node = -1;

    GF_WITH_ENGINE(if (engine->gpu_node) node = engine->gpu_node());
    return node;
}

/*
 * libc's static pthread_atfork and atexit pass __dso_handle to identify the object that registers a
 * handler. The compiler's start files define this symbol, but this library is linked without them.
 * The definition here is weak, for builds that link the start files.
 */

extern const void *const __dso_handle;
__attribute__((visibility("hidden"), weak)) const void *const __dso_handle = &__dso_handle;
