/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See entry.h. At the jump, the argument registers and the stack pointer are the same as at entry.
 */
#include "preload/hook/entry.h"

    .text

    .macro entry name, kind
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    movq    .Ltarget_\name(%rip), %r11
    testq   %r11, %r11
    je      .Lfirst_\name
    jmp     *%r11
.Lfirst_\name:
    leaq    .Lentry_\name(%rip), %r11
    jmp     entry_first
    .cfi_endproc
    .size \name, . - \name
    entry_record \name, \kind
    .endm

    /* r11: the entry */
    .type entry_first, @function
    .p2align 4
entry_first:
    .cfi_startproc
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    pushq   %rcx
    .cfi_adjust_cfa_offset 8
    pushq   %r8
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    pushq   %r9
    .cfi_adjust_cfa_offset 8
    movq    %r11, %rdi
    call    gf_entry_open
    movq    %rax, %r11
    popq    %r9
    .cfi_adjust_cfa_offset -8
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %r8
    .cfi_adjust_cfa_offset -8
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *%r11
    .cfi_endproc
    .size entry_first, . - entry_first

#define GF_LIBC(symbol) entry symbol, GF_ENTRY_HOOK
#define GF_LIBC_ALWAYS(symbol) entry symbol, GF_ENTRY_ALWAYS
#define GF_LIBC_EARLY(symbol) entry symbol, GF_ENTRY_EARLY
#include "abi/hooks.def"

    /* The versions of glibc since 2.34 and before (exports.map.in). */
    .globl  old_pthread_setaffinity_np
    .set    old_pthread_setaffinity_np, pthread_setaffinity_np
    .symver old_pthread_setaffinity_np, pthread_setaffinity_np@GLIBC_2.3.4
    .symver pthread_setaffinity_np, pthread_setaffinity_np@@@GLIBC_2.34

    .section .note.GNU-stack, "", @progbits
