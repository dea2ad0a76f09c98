/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported entries of the hooks of libc functions (entry_<arch>.S), generated from hooks.def.
 * An entry jumps to its target, so that the return address stays that of the caller. The first call
 * stores the target: the hook, or with GPUFEED=off the original. Before the loader has relocated
 * this library, a call jumps to the next definition, and stores nothing.
 */
#pragma once

/*
 * Kinds of entries, by their target. GF_ENTRY_HOOK: with GPUFEED=off, and in a second copy of this
 * library, the target is the original; otherwise it is the hook.
 */
#define GF_ENTRY_HOOK 0
#define GF_ENTRY_ALWAYS 1 /* the hook in every mode */
#define GF_ENTRY_EARLY 2  /* the hook in every mode, even before the relocation */

#ifndef __ASSEMBLER__
#include "base/base.h"

/* Addresses are stored as offsets from the struct, so that the struct needs no relocation. */
struct gf_entry {
    int32_t hook;
    /* Offset of the word that stores the target, which is 0 before the first call. */
    int32_t target;
    uint32_t kind;
    char name[];
};

/*
 * Returns the target of this call. Keeps errno. May be called on any thread, also under the
 * loader's lock, inside malloc and in a forked child.
 */
void *gf_entry_open(const struct gf_entry *entry);
#else
/* A struct gf_entry, and its target. */
/* clang-format off */
    .macro entry_record name, kind
    .pushsection .rodata
    .p2align 2
.Lentry_\name:
    .long   gf_on_\name - .
    .long   .Ltarget_\name - .Lentry_\name
    .long   \kind
    .asciz  "\name"
    .popsection

    .pushsection .bss
    .p2align 3
.Ltarget_\name:
    .zero   8
    .popsection
    .endm
/* clang-format on */
#endif
