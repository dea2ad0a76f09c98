/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinds the calling thread's stack by the unwind tables of the loaded objects. The code runs
 * inside malloc, under the loader's lock and in forked children. So it allocates nothing and takes
 * no lock: _dl_find_object finds the objects, if glibc has this function. The stack is read by
 * system calls, so that a wrong table ends the walk, and does not crash the process.
 *
 * libunwind is not suitable here. Its local API calls dl_iterate_phdr, which takes the loader's
 * lock. Its generic API, with accessors that the caller provides, avoids that lock and finds the
 * same frames. But it locks a memory pool with all signals blocked. About 1 % of the children
 * forked during a walk hung.
 *
 * Also, damaged tables crash libunwind, it is slower than this code, and its archives in Debian are
 * not position-independent. The measurements are in bench/NOTES.md, "Unwinding". The tests use
 * libunwind and libgcc as references (tests/unwind).
 */
#pragma once

#include "preload/trace/dwarf.h"

#define GF_UNWIND_FRAMES 48
#define GF_UNWIND_MODULES 16

struct gf_module {
    /*
     * The object's path as the loader stores it; "" for the program. Valid while the object is
     * loaded.
     */
    const char *path;
    uintptr_t base; /* the load address, to which offsets are relative */
    uintptr_t start, end;
    unsigned char id[32]; /* the build id */
    size_t id_length;
};

struct gf_frame {
    unsigned module;
    uintptr_t offset; /* offset of the call in the object: that of the return address minus one */
};

struct gf_stack {
    struct gf_frame frame[GF_UNWIND_FRAMES];
    size_t frames;
    struct gf_module module[GF_UNWIND_MODULES];
    size_t modules;
    bool cut; /* the stack has more frames than fit */
};

/*
 * Finds the loader's function _dl_find_object. Takes the loader's lock. Called before the first
 * walk.
 */
void gf_unwind_open(void);

/*
 * Returns the start of the loaded object that contains the address. Returns NULL if no object
 * contains it, or if glibc has no _dl_find_object. Takes no lock.
 */
const void *gf_unwind_object(const void *address);

/*
 * Whether the address is in an object whose file name begins with `name`. If so, sets *ret_start and
 * *ret_size to its range. Takes no lock.
 */
bool gf_unwind_is_in(const void *address, const char *name, uintptr_t *ret_start, size_t *ret_size);

/*
 * Finds the frames of the calling thread, beginning with the first frame outside of this library.
 * scratch: GF_UNWIND_SCRATCH bytes of memory, which is not on the stack, because the thread's stack
 * may be too small.
 */
#define GF_UNWIND_SCRATCH 6144
void gf_unwind(struct gf_stack *ret, void *scratch);

/* Reads memory of a stopped thread. Returns the number of bytes read. */
typedef size_t gf_unwind_peek(uintptr_t address, void *ret, size_t size);

/*
 * Finds all frames of a stopped thread, from `first` on. The thread's process must have the same
 * objects at the same addresses as this process. This is true, for example, for a forked child.
 */
void gf_unwind_stopped(const struct gf_dwarf_frame *first, gf_unwind_peek *peek,
                       struct gf_stack *ret, void *scratch);
