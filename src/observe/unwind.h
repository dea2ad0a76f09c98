/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's stack by the unwind tables of the loaded objects. No lock (the objects are
 * found by _dl_find_object, where glibc has it), no allocation; the stack is read so that a wrong
 * table ends the walk and not the process. Not libunwind: that asks dl_iterate_phdr, whose lock
 * may be held by who waits for us, and in the program's scope it takes over C++ exceptions.
 */
#ifndef GF_OBSERVE_UNWIND_H
#define GF_OBSERVE_UNWIND_H

#include "base/base.h"

#define GF_UNWIND_FRAMES 48
#define GF_UNWIND_MODULES 16

struct gf_module {
    const char *path; /* the loader's, "" for the program; valid while the object is loaded */
    uintptr_t base;   /* what an address is relative to */
    uintptr_t start, end;
    unsigned char id[32]; /* the build id */
    size_t id_length;
};

struct gf_frame {
    unsigned module;
    uintptr_t offset; /* of the call in the object: the return address, less one */
};

struct gf_stack {
    struct gf_frame frame[GF_UNWIND_FRAMES];
    size_t frames;
    struct gf_module module[GF_UNWIND_MODULES];
    size_t modules;
    bool cut; /* there is more */
};

/* Finds the loader's function. Before the first stack, at a time when no lock of the loader matters. */
void gf_unwind_open(void);

/* Where the loaded object begins in which the address is; NULL: none, or nobody can tell. No lock. */
const void *gf_unwind_object(const void *address);

/*
 * Callers of the caller, from the first outside of this object on. scratch: GF_UNWIND_SCRATCH bytes
 * that are nobody else's meanwhile, so that the thread's own stack needs not hold them.
 */
#define GF_UNWIND_SCRATCH 6144
void gf_unwind(struct gf_stack *ret, void *scratch);

#endif
