/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of dlsym, dlvsym and dlopen. These hooks are written in assembly (jump_<arch>.S), so
 * that they can jump to the original, because glibc identifies the caller by the return address. If
 * the hooks called the original, RTLD_NEXT and RTLD_DEFAULT would be relative to this library, and
 * dlopen would search this library's RUNPATH. C cannot guarantee a jump: at -O0, a sibling call
 * becomes a call. jump_<arch>.S uses the variables and functions below.
 */
#ifndef GF_PRELOAD_HOOK_RESOLVE_JUMP_H
#define GF_PRELOAD_HOOK_RESOLVE_JUMP_H

#include "base/base.h"

#include <dlfcn.h>

/* The originals. NULL until gf_jump_prepare_dlsym and gf_jump_prepare_dlopen have set them. */
extern _Atomic(__typeof__(dlsym) *) gf_jump_dlsym;
extern _Atomic(__typeof__(dlvsym) *) gf_jump_dlvsym;
extern _Atomic(__typeof__(dlopen) *) gf_jump_dlopen;
/*
 * A mask for the argument mode of dlopen. It removes RTLD_DEEPBIND if that flag would lead to two
 * heaps (docs/hooks.md).
 */
extern _Atomic int gf_jump_dlopen_mask;

void gf_jump_prepare_dlsym(void);
void gf_jump_prepare_dlopen(void);

/*
 * Called before a lookup with RTLD_NEXT. If the name is that of a function of the malloc family,
 * first sets libc's symbol to the function that serves malloc (libc_names.h). Otherwise a library
 * that looks up the next malloc and calls it would mix two heaps.
 */
void gf_jump_before_next(void *handle, const char *name);

struct gf_jump_answer {
    void *address;
    /* 0: do not return `address`, but jump to the original with the caller's own arguments. */
    uintptr_t is_final;
};

/*
 * Called for names that begin with "cu" and a capital letter, with any handle except RTLD_NEXT.
 * Returns the hook of the function that the original finds. Afterwards dlerror returns the same
 * text as without this library.
 */
struct gf_jump_answer gf_jump_answer(void *handle, const char *name);

#endif
