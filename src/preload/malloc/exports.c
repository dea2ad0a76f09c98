/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported malloc family. If jemalloc serves malloc, a call is one well-predicted branch and a
 * jump. If another allocator serves malloc, while the heap samples, and at the first call, a
 * function table is used.
 */
#include "preload/malloc/exports.h"

#include "preload/heap/boot.h"
#include "preload/heap/family.h"
#include "preload/heap/mode.h"
#include "preload/heap/passthrough.h"
#include "preload/heap/sample.h"
#include "preload/malloc/interposed_call.h"
#include "preload/malloc/start.h"

/* A plain read suffices: see gf_mode_now. */
static inline bool jemalloc_serves(void)
{
    return gf_likely(gf_mode_now == gf_heap_mode_replace);
}

static inline bool passes_through(void)
{
    return gf_likely(gf_mode_get() == gf_heap_mode_passthrough);
}

/*
 * The first call decides the mode. Calls that the deciding thread makes during the decision are
 * served from the boot pool.
 */
GF_COLD static const struct gf_family *decided_family(bool inside_calloc)
{
    if (inside_calloc)
        gf_start_in_calloc();
    else
        gf_start();
    switch (gf_mode_get()) {
    case gf_heap_mode_replace:
        return &gf_family_jemalloc;
    case gf_heap_mode_sampled:
        return gf_sample_family();
    case gf_heap_mode_passthrough:
        return &gf_family_passthrough;
    case gf_heap_mode_undecided:
        break;
    }
    return &gf_family_boot;
}

/*
 * Serves the first call, calls while the heap samples, and calls before relocation. Calls before
 * relocation use the boot pool's functions directly, because they must not read a pointer table.
 *
 * libc's header marks mallinfo as deprecated, but programs still call it.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define GF_IS_CALLOC(name) (sizeof(name) == sizeof("calloc") && *(name) == 'c')
#define GF_FAMILY(name, type, parameters, arguments)                                               \
    GF_COLD static type name##_otherwise parameters                                                \
    {                                                                                              \
        return gf_start_loaded() ? decided_family(GF_IS_CALLOC(#name))->name arguments             \
                                 : gf_boot_##name arguments;                                       \
    }
#include "abi/family.def"

GF_EXPORT void *malloc(size_t size)
{
    return jemalloc_serves()  ? je_malloc(size)
           : passes_through() ? gf_family_passthrough.malloc(size)
                              : malloc_otherwise(size);
}

GF_EXPORT void *calloc(size_t count, size_t size)
{
    return jemalloc_serves()  ? je_calloc(count, size)
           : passes_through() ? gf_family_passthrough.calloc(count, size)
                              : calloc_otherwise(count, size);
}

GF_EXPORT void *realloc(void *block, size_t size)
{
    return jemalloc_serves()  ? gf_jemalloc_realloc(block, size)
           : passes_through() ? gf_family_passthrough.realloc(block, size)
                              : realloc_otherwise(block, size);
}

GF_EXPORT void free(void *block)
{
    if (jemalloc_serves())
        gf_jemalloc_free(block);
    else if (passes_through())
        gf_family_passthrough.free(block);
    else
        free_otherwise(block);
}

/* Written by hand for speed: Redis calls this for each block that it allocates or frees. */
GF_EXPORT size_t malloc_usable_size(void *block)
{
    return jemalloc_serves()  ? gf_jemalloc_usable_size(block)
           : passes_through() ? gf_family_passthrough.malloc_usable_size(block)
                              : malloc_usable_size_otherwise(block);
}

#define GF_FAMILY_HOT(name, type, parameters, arguments)
#define GF_FAMILY_SIZE(name, type, parameters, arguments)
#define GF_FAMILY(name, type, parameters, arguments)                                               \
    GF_EXPORT type name parameters                                                                 \
    {                                                                                              \
        return jemalloc_serves()  ? gf_family_jemalloc.name arguments                              \
               : passes_through() ? gf_family_passthrough.name arguments                           \
                                  : name##_otherwise arguments;                                    \
    }
#include "abi/family.def"
#pragma GCC diagnostic pop

GF_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return gf_likely(gf_start_loaded()) ? gf_interposed_realloc(block, total)
                                        : realloc(block, total);
}

GF_EXPORT void cfree(void *block)
{
    if (gf_likely(gf_start_loaded())) /* blocks of the boot pool are never freed */
        gf_interposed_free(block);
}

GF_EXPORT void free_sized(void *block, size_t size)
{
    (void)size;
    cfree(block);
}

GF_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    cfree(block);
}

/* Whether the heap passes calls through, for a call that may be the first. */
GF_COLD static bool decided_to_pass_through(bool inside_calloc)
{
    return gf_start_loaded() && decided_family(inside_calloc) == &gf_family_passthrough;
}

/*
 * A program may allocate a block by one of glibc's internal names, and free it by free. So if
 * jemalloc serves malloc, it serves these names, too. If another allocator serves malloc, its own
 * malloc may call __libc_malloc. So each of these names calls the next definition of itself: the
 * next malloc would call __libc_malloc again, without end.
 */
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments)                                  \
    GF_EXPORT type alias parameters                                                                \
    {                                                                                              \
        if (jemalloc_serves())                                                                     \
            return gf_family_jemalloc.name arguments;                                              \
        return passes_through() || decided_to_pass_through(GF_IS_CALLOC(#name))                    \
                   ? gf_libc_names_passthrough.alias arguments                                     \
                   : name##_otherwise arguments;                                                   \
    }
#include "abi/family.def"
