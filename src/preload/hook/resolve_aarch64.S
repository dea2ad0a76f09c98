/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See resolve.c. At the jump, the argument registers and the stack pointer are the same as at entry.
 */
    .text

    /*
     * Calls `function`; its result is then in x16 and x17, and x0, x1, x2 and the return address
     * are as before. hint 25 and 29 are paciasp and autiasp.
     */
    .macro call_keeping_arguments function
    hint    25
    .cfi_negate_ra_state
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    str     x2, [sp, #32]
    bl      \function
    mov     x16, x0
    mov     x17, x1
    ldr     x2, [sp, #32]
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    hint    29
    .cfi_negate_ra_state
    .endm

/* void *dlsym(void *handle [x0], const char *name [x1]) */
    .globl gf_on_dlsym
    .hidden gf_on_dlsym
    .type gf_on_dlsym, %function
    .p2align 4
gf_on_dlsym:
    .cfi_startproc
    hint    34                      /* bti c */
    cbz     x1, .Ldlsym_original
    cmn     x0, #1                  /* RTLD_NEXT */
    b.eq    .Ldlsym_next
    ldrb    w9, [x1]
    cmp     w9, #'c'
    b.ne    .Ldlsym_original
    ldrb    w9, [x1, #1]
    cmp     w9, #'u'
    b.ne    .Ldlsym_original
    ldrb    w9, [x1, #2]
    sub     w9, w9, #'A'
    cmp     w9, #25
    b.hi    .Ldlsym_original
    call_keeping_arguments gf_jump_answer    /* the address, and whether it is final */
    cbz     x17, .Ldlsym_original
    mov     x0, x16
    ret
.Ldlsym_next:
    call_keeping_arguments gf_jump_before_next
.Ldlsym_original:
    adrp    x17, gf_jump_dlsym
    ldr     x16, [x17, :lo12:gf_jump_dlsym]
    cbz     x16, .Ldlsym_prepare
    br      x16
.Ldlsym_prepare:
    call_keeping_arguments gf_jump_prepare_dlsym
    b       .Ldlsym_original
    .cfi_endproc
    .size gf_on_dlsym, . - gf_on_dlsym

/* void *dlvsym(void *handle [x0], const char *name [x1], const char *version [x2]) */
    .globl gf_on_dlvsym
    .hidden gf_on_dlvsym
    .type gf_on_dlvsym, %function
    .p2align 4
gf_on_dlvsym:
    .cfi_startproc
    hint    34                      /* bti c */
    cbz     x1, .Ldlvsym_original
    cmn     x0, #1                  /* RTLD_NEXT */
    b.ne    .Ldlvsym_original
    call_keeping_arguments gf_jump_before_next
.Ldlvsym_original:
    adrp    x17, gf_jump_dlvsym
    ldr     x16, [x17, :lo12:gf_jump_dlvsym]
    cbz     x16, .Ldlvsym_prepare
    br      x16
.Ldlvsym_prepare:
    call_keeping_arguments gf_jump_prepare_dlsym
    b       .Ldlvsym_original
    .cfi_endproc
    .size gf_on_dlvsym, . - gf_on_dlvsym

/* void *dlopen(const char *file [x0], int mode [w1]) */
    .globl gf_on_dlopen
    .hidden gf_on_dlopen
    .type gf_on_dlopen, %function
    .p2align 4
gf_on_dlopen:
    .cfi_startproc
    hint    34
.Ldlopen_original:
    adrp    x17, gf_jump_dlopen
    add     x17, x17, :lo12:gf_jump_dlopen
    ldar    x16, [x17] /* loaded before the mask, because it was stored after the mask */
    cbz     x16, .Ldlopen_prepare
    adrp    x17, gf_jump_dlopen_mask
    ldr     w17, [x17, :lo12:gf_jump_dlopen_mask]
    and     w1, w1, w17
    br      x16
.Ldlopen_prepare:
    call_keeping_arguments gf_jump_prepare_dlopen
    b       .Ldlopen_original
    .cfi_endproc
    .size gf_on_dlopen, . - gf_on_dlopen

/* void *dlmopen(Lmid_t space [x0], const char *file [x1], int mode [w2]) */
    .globl gf_on_dlmopen
    .hidden gf_on_dlmopen
    .type gf_on_dlmopen, %function
    .p2align 4
gf_on_dlmopen:
    .cfi_startproc
    hint    34
.Ldlmopen_original:
    adrp    x17, gf_jump_dlmopen
    add     x17, x17, :lo12:gf_jump_dlmopen
    ldar    x16, [x17]              /* before the mask, as in dlopen */
    cbz     x16, .Ldlmopen_prepare
    cbnz    x0, .Ldlmopen_jump      /* not LM_ID_BASE */
    adrp    x17, gf_jump_dlopen_mask
    ldr     w17, [x17, :lo12:gf_jump_dlopen_mask]
    and     w2, w2, w17
.Ldlmopen_jump:
    br      x16
.Ldlmopen_prepare:
    call_keeping_arguments gf_jump_prepare_dlopen
    b       .Ldlmopen_original
    .cfi_endproc
    .size gf_on_dlmopen, . - gf_on_dlmopen

    .section .note.GNU-stack, "", %progbits
