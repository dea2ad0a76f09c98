/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/stream_list.h"

#include "base/atomic.h"
#include "base/loader.h"

typedef void lock_fn(void);

/*
 * glibc exports these functions, but no header declares them. Threads that search at the same time
 * store the same addresses.
 */
static lock_fn *_Atomic lock, *_Atomic unlock, *_Atomic reset;
static _Atomic bool searched;

static GF_COLD void search(void)
{
    lock_fn *const take = (lock_fn *)gf_libc_function("_IO_list_lock");
    lock_fn *const release = (lock_fn *)gf_libc_function("_IO_list_unlock");
    lock_fn *const renew = (lock_fn *)gf_libc_function("_IO_list_resetlock");

    if (take && release && renew) {
        gf_store_relaxed(&lock, take);
        gf_store_relaxed(&unlock, release);
        gf_store_relaxed(&reset, renew);
    }
    gf_store_release(&searched, true);
}

static void call(lock_fn *function)
{
    if (function)
        function();
}

void gf_stream_list_lock(void)
{
    if (gf_unlikely(!gf_load_acquire(&searched)))
        search();
    call(gf_load_relaxed(&lock));
}

void gf_stream_list_unlock(void)
{
    call(gf_load_relaxed(&unlock));
}

void gf_stream_list_reset(void)
{
    call(gf_load_relaxed(&reset));
}
