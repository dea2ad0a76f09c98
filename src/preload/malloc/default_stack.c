/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/malloc/default_stack.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The hook of pthread_attr_setstacksize adds to the size (preload/hook/on_thread.c). */
static GF_COLD void enlarge(void)
{
    pthread_attr_t attr;
    size_t size;

    if (pthread_getattr_default_np(&attr) != 0)
        return;
    if (pthread_attr_getstacksize(&attr, &size) == 0 && size && size < GF_STACK_LARGE &&
        pthread_attr_setstacksize(&attr, size) == 0)
        pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

void gf_default_stack_enlarge(void)
{
    struct rlimit limit;

    if (syscall(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit) == 0 &&
        limit.rlim_cur < GF_STACK_LARGE)
        enlarge();
}
