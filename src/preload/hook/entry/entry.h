/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported entry of each hook of a function of libc, generated from hooks.def. An entry jumps
 * to a target that its first call stores: the hook, or with GPUFEED=off the original. Before the
 * loader has relocated this library, a call jumps straight to the next definition and stores
 * nothing. entry_<arch>.S contains the entries. They jump, so that the return address stays the
 * caller's.
 */
#ifndef GF_PRELOAD_HOOK_ENTRY_ENTRY_H
#define GF_PRELOAD_HOOK_ENTRY_ENTRY_H

#define GF_ENTRY_HOOK 0   /* the original with GPUFEED=off and in a second copy, else the hook */
#define GF_ENTRY_ALWAYS 1 /* the hook in every mode */
#define GF_ENTRY_EARLY 2  /* the hook in every mode, and before the relocation */

#ifndef __ASSEMBLER__
#include "base/base.h"

/* Addresses are offsets from the struct itself, so that it needs no relocation. */
struct gf_entry {
    int32_t hook;
    int32_t
        target; /* offset of the word that holds the target; the word is 0 before the first call */
    uint32_t kind;
    char name[];
};

/*
 * Returns the target of this call. Any thread, under the loader's lock, inside malloc, in a forked
 * child. Keeps errno.
 */
void *gf_entry_open(const struct gf_entry *entry);
#endif

#endif
