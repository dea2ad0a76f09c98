/* SPDX-License-Identifier: Apache-2.0 */
/* See jump.h. Arguments stay in their registers; the stack is as the caller left it at each jump. */
    .text

    /* Calls `function`, its result in x16 and x17, with x0, x1 and the return address kept. hint 25 and 29: paciasp, autiasp. */
    .macro keep_and_call function
    hint    25
    .cfi_negate_ra_state
    stp     x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    bl      \function
    mov     x16, x0
    mov     x17, x1
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #32
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    hint    29
    .cfi_negate_ra_state
    .endm

/* void *dlsym(void *handle [x0], const char *name [x1]) */
    .globl dlsym
    .type dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint    34                      /* bti c */
    cmn     x0, #1                  /* RTLD_NEXT */
    b.eq    .Ldlsym_original
    cbz     x1, .Ldlsym_original
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
    keep_and_call gf_jump_answer    /* the address, and whether it is the answer */
    cbz     x17, .Ldlsym_original
    mov     x0, x16
    ret
.Ldlsym_original:
    adrp    x17, gf_jump_dlsym
    ldr     x16, [x17, :lo12:gf_jump_dlsym]
    cbz     x16, .Ldlsym_prepare
    br      x16
.Ldlsym_prepare:
    keep_and_call gf_jump_prepare_dlsym
    b       .Ldlsym_original
    .cfi_endproc
    .size dlsym, . - dlsym

/* void *dlopen(const char *file [x0], int mode [w1]) */
    .globl dlopen
    .type dlopen, %function
    .p2align 4
dlopen:
    .cfi_startproc
    hint    34
.Ldlopen_original:
    adrp    x17, gf_jump_dlopen
    add     x17, x17, :lo12:gf_jump_dlopen
    ldar    x16, [x17]              /* before the mask that it was published behind */
    cbz     x16, .Ldlopen_prepare
    adrp    x17, gf_jump_dlopen_keep
    ldr     w17, [x17, :lo12:gf_jump_dlopen_keep]
    and     w1, w1, w17
    br      x16
.Ldlopen_prepare:
    keep_and_call gf_jump_prepare_dlopen
    b       .Ldlopen_original
    .cfi_endproc
    .size dlopen, . - dlopen

    .section .note.GNU-stack, "", %progbits
