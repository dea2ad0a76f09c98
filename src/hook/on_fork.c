/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __register_atfork, which libc's static pthread_atfork calls: passed on unchanged, once the heap has registered its own.
 * Those come first then, so they run behind everybody's before a fork and before everybody's after it, and what any
 * handler does in between (allocate, wait for a thread that does, start one, fork) meets no lock of the heap's: as
 * under glibc, whose malloc is locked within fork itself. Before main, under the loader's lock, and by the heap as it starts.
 */
#include "hook/on_fork.h"

#include "heap/heap.h"
#include "hook/originals.h"

#include <errno.h>

/*
 * By an indirect function's resolver, while the door has no addresses yet (src/heap/boot.c): kept until the heap
 * starts, with the first malloc. On one thread.
 */
static struct {
    void (*prepare)(void), (*parent)(void), (*child)(void);
    void *object;
} early[8];
static unsigned early_count;

static int keep(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
    if (early_count == GF_ARRAY_LEN(early))
        return ENOMEM;
    early[early_count].prepare = prepare;
    early[early_count].parent = parent;
    early[early_count].child = child;
    early[early_count++].object = object;
    return 0;
}

void gf_on_fork_register_early(void)
{
    for (unsigned i = 0; i < early_count; i++)
        gf_originals()->__register_atfork(early[i].prepare, early[i].parent, early[i].child, early[i].object);
}

GF_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

GF_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
    if (gf_unlikely(!gf_heap_loaded()))
        return keep(prepare, parent, child, object);
    gf_heap_init();
    gf_heap_registers();
    const int error = gf_originals()->__register_atfork(prepare, parent, child, object);
    gf_heap_registered();
    return error;
}
