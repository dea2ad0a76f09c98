/* SPDX-License-Identifier: Apache-2.0 */
/* See jump.h. Arguments stay in their registers; the stack is as the caller left it at each jump. */
    .text

/* void *dlsym(void *handle [rdi], const char *name [rsi]) */
    .globl dlsym
    .type dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    cmpq    $-1, %rdi               /* RTLD_NEXT */
    je      .Ldlsym_original
    testq   %rsi, %rsi
    je      .Ldlsym_original
    cmpb    $'c', (%rsi)            /* byte by byte: a shorter name may end its page */
    jne     .Ldlsym_original
    cmpb    $'u', 1(%rsi)
    jne     .Ldlsym_original
    movzbl  2(%rsi), %eax
    subl    $'A', %eax
    cmpl    $25, %eax
    ja      .Ldlsym_original
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    gf_jump_answer          /* rax the address, rdx whether it is the answer */
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testq   %rdx, %rdx
    je      .Ldlsym_original
    ret
.Ldlsym_original:
    movq    gf_jump_dlsym(%rip), %rax
    testq   %rax, %rax
    je      .Ldlsym_prepare
    jmp     *%rax
.Ldlsym_prepare:
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    gf_jump_prepare_dlsym
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    movq    gf_jump_dlsym(%rip), %rax
    jmp     *%rax
    .cfi_endproc
    .size dlsym, . - dlsym

/* void *dlopen(const char *file [rdi], int mode [esi]) */
    .globl dlopen
    .type dlopen, @function
    .p2align 4
dlopen:
    .cfi_startproc
    endbr64
    movq    gf_jump_dlopen(%rip), %rax
    testq   %rax, %rax
    je      .Ldlopen_prepare
.Ldlopen_original:
    andl    gf_jump_dlopen_keep(%rip), %esi
    jmp     *%rax
.Ldlopen_prepare:
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    gf_jump_prepare_dlopen
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    movq    gf_jump_dlopen(%rip), %rax
    jmp     .Ldlopen_original
    .cfi_endproc
    .size dlopen, . - dlopen

    .section .note.GNU-stack, "", @progbits
