/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __register_atfork, which libc's static pthread_atfork calls: passed through, once the heap has
 * registered its own handlers. Handlers that are registered first run last before a fork and first
 * after it. So a handler of the program may allocate, wait for a thread that allocates, start a
 * thread, or fork: no lock of the heap is held then. glibc, which locks its malloc inside fork,
 * gives the same guarantee.
 *
 * Called before main, under the loader's lock, and by the heap as it starts.
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
