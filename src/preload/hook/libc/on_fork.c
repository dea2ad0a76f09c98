/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of __register_atfork, which libc's static pthread_atfork calls. The hook first lets the
 * heap register its own handlers, and then passes the call through. Handlers that are registered
 * first run last before a fork, and first after it. So no lock of the heap is held while a handler
 * of the program runs. As with glibc's malloc, such a handler may allocate, wait for a thread that
 * allocates, start a thread, or fork.
 *
 * May be called before main, under the loader's lock, and by the heap's start.
 */
#include "preload/heap/fork.h"
#include "preload/hook/originals/originals.h"
#include "preload/malloc/start.h"

int gf_on___register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                            void *object)
{
    if (gf_unlikely(!gf_start_loaded()))
        return gf_fork_keep_early(prepare, parent, child, object);
    gf_start();
    gf_fork_registration_begin();
    const int error = gf_originals()->__register_atfork(prepare, parent, child, object);
    gf_fork_registration_end();
    return error;
}
