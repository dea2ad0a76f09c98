/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See entry.h. At the jump, the argument registers and the stack pointer are the same as at entry.
 */
#include "preload/hook/entry.h"

    .text

    .macro entry name, kind
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint    34                      /* bti c */
    adrp    x17, .Ltarget_\name
    ldr     x16, [x17, :lo12:.Ltarget_\name]
    cbz     x16, .Lfirst_\name
    br      x16
.Lfirst_\name:
    adrp    x17, .Lentry_\name
    add     x17, x17, :lo12:.Lentry_\name
    b       entry_first
    .cfi_endproc
    .size \name, . - \name
    entry_record \name, \kind
    .endm

    /* x17: the entry; hint 25 and 29 are paciasp and autiasp */
    .type entry_first, %function
    .p2align 4
entry_first:
    .cfi_startproc
    hint    25
    .cfi_negate_ra_state
    stp     x29, x30, [sp, #-80]!
    .cfi_def_cfa_offset 80
    .cfi_offset 29, -80
    .cfi_offset 30, -72
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    stp     x2, x3, [sp, #32]
    stp     x4, x5, [sp, #48]
    stp     x6, x7, [sp, #64]
    mov     x0, x17
    bl      gf_entry_open
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    ldp     x2, x3, [sp, #32]
    ldp     x4, x5, [sp, #48]
    ldp     x6, x7, [sp, #64]
    ldp     x29, x30, [sp], #80
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    hint    29
    .cfi_negate_ra_state
    br      x16
    .cfi_endproc
    .size entry_first, . - entry_first

#define GF_LIBC(symbol) entry symbol, GF_ENTRY_HOOK
#define GF_LIBC_ALWAYS(symbol) entry symbol, GF_ENTRY_ALWAYS
#define GF_LIBC_EARLY(symbol) entry symbol, GF_ENTRY_EARLY
#include "abi/hooks.def"

    .section .note.GNU-stack, "", %progbits
