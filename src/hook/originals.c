/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/originals.h"

#include "base/symbols.h"

static struct gf_originals found;

/* A door that was itself opened by dlopen stands behind libc, and nothing is behind it. */
static void *find(const char *name)
{
    struct gf_symbol next;
    if (gf_symbol_find(name, &found, &next) || gf_symbol_find(name, NULL, &next))
        return next.address;
    return NULL;
}

static GF_COLD void resolve(void)
{
#define FIND(name) __atomic_store_n(&found.name, find(#name), __ATOMIC_RELAXED)
    FIND(dlopen);
    FIND(pthread_create);
    FIND(__register_atfork);
    FIND(sched_setaffinity);
    FIND(pthread_setaffinity_np);
    FIND(munmap);
    FIND(_exit);
    FIND(_Exit);
#undef FIND
    /* Last, and tested first: who sees it sees the others. */
    __atomic_store_n(&found.dlsym, find("dlsym"), __ATOMIC_RELEASE);
}

const struct gf_originals *gf_originals(void)
{
    if (gf_unlikely(!__atomic_load_n(&found.dlsym, __ATOMIC_ACQUIRE)))
        resolve();
    return &found;
}
