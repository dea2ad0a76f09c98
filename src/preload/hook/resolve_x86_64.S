/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See resolve.c. At the jump, the argument registers and the stack pointer are the same as at entry.
 */
    .text

    /* Calls `function`; its result is then in rax and r10, and the arguments are as before. */
    .macro call_keeping_arguments function
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    call    \function
    movq    %rdx, %r10
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    .endm

/* void *dlsym(void *handle [rdi], const char *name [rsi]) */
    .globl gf_on_dlsym
    .hidden gf_on_dlsym
    .type gf_on_dlsym, @function
    .p2align 4
gf_on_dlsym:
    .cfi_startproc
    endbr64
    testq   %rsi, %rsi
    je      .Ldlsym_original
    cmpq    $-1, %rdi               /* RTLD_NEXT */
    je      .Ldlsym_next
    /* Compares byte by byte, because a short name may end at the end of its page. */
    cmpb    $'c', (%rsi)
    jne     .Ldlsym_original
    cmpb    $'u', 1(%rsi)
    jne     .Ldlsym_original
    movzbl  2(%rsi), %eax
    subl    $'A', %eax
    cmpl    $25, %eax
    ja      .Ldlsym_original
    call_keeping_arguments gf_jump_answer    /* the address, and whether it is the answer */
    testq   %r10, %r10
    je      .Ldlsym_original
    ret
.Ldlsym_next:
    call_keeping_arguments gf_jump_before_next
.Ldlsym_original:
    movq    gf_jump_dlsym(%rip), %rax
    testq   %rax, %rax
    je      .Ldlsym_prepare
    jmp     *%rax
.Ldlsym_prepare:
    call_keeping_arguments gf_jump_prepare_dlsym
    jmp     .Ldlsym_original
    .cfi_endproc
    .size gf_on_dlsym, . - gf_on_dlsym

/* void *dlvsym(void *handle [rdi], const char *name [rsi], const char *version [rdx]) */
    .globl gf_on_dlvsym
    .hidden gf_on_dlvsym
    .type gf_on_dlvsym, @function
    .p2align 4
gf_on_dlvsym:
    .cfi_startproc
    endbr64
    testq   %rsi, %rsi
    je      .Ldlvsym_original
    cmpq    $-1, %rdi               /* RTLD_NEXT */
    jne     .Ldlvsym_original
    call_keeping_arguments gf_jump_before_next
.Ldlvsym_original:
    movq    gf_jump_dlvsym(%rip), %rax
    testq   %rax, %rax
    je      .Ldlvsym_prepare
    jmp     *%rax
.Ldlvsym_prepare:
    call_keeping_arguments gf_jump_prepare_dlsym
    jmp     .Ldlvsym_original
    .cfi_endproc
    .size gf_on_dlvsym, . - gf_on_dlvsym

/* void *dlopen(const char *file [rdi], int mode [esi]) */
    .globl gf_on_dlopen
    .hidden gf_on_dlopen
    .type gf_on_dlopen, @function
    .p2align 4
gf_on_dlopen:
    .cfi_startproc
    endbr64
.Ldlopen_original:
    movq    gf_jump_dlopen(%rip), %rax
    testq   %rax, %rax
    je      .Ldlopen_prepare
    andl    gf_jump_dlopen_mask(%rip), %esi
    jmp     *%rax
.Ldlopen_prepare:
    call_keeping_arguments gf_jump_prepare_dlopen
    jmp     .Ldlopen_original
    .cfi_endproc
    .size gf_on_dlopen, . - gf_on_dlopen

/* void *dlmopen(Lmid_t space [rdi], const char *file [rsi], int mode [edx]) */
    .globl gf_on_dlmopen
    .hidden gf_on_dlmopen
    .type gf_on_dlmopen, @function
    .p2align 4
gf_on_dlmopen:
    .cfi_startproc
    endbr64
.Ldlmopen_original:
    movq    gf_jump_dlmopen(%rip), %rax
    testq   %rax, %rax
    je      .Ldlmopen_prepare
    testq   %rdi, %rdi              /* LM_ID_BASE */
    jne     .Ldlmopen_jump
    andl    gf_jump_dlopen_mask(%rip), %edx
.Ldlmopen_jump:
    jmp     *%rax
.Ldlmopen_prepare:
    call_keeping_arguments gf_jump_prepare_dlopen
    jmp     .Ldlmopen_original
    .cfi_endproc
    .size gf_on_dlmopen, . - gf_on_dlmopen

    .section .note.GNU-stack, "", @progbits
