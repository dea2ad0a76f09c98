/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __register_atfork, which libc's static pthread_atfork calls: passed on unchanged, once the heap has registered its own.
 * Those come first then, so they run behind everybody's before a fork and before everybody's after it, and what any
 * handler does in between (allocate, wait for a thread that does, start one, fork) meets no lock of the heap's: as
 * under glibc, whose malloc is locked within fork itself. Before main, under the loader's lock, and by the heap as it starts.
 */
#include "heap/heap.h"
#include "hook/originals.h"

GF_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

GF_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
    gf_heap_init();
    return gf_originals()->__register_atfork(prepare, parent, child, object);
}
