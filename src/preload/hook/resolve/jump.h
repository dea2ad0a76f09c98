/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of dlsym, dlvsym and dlopen. They are assembly that jumps to the original and never calls it,
 * because glibc identifies the caller by the return address. With a call, RTLD_NEXT and
 * RTLD_DEFAULT would be relative to this library, and dlopen would search this library's RUNPATH. C
 * cannot express the jump: at -O0 a sibling call becomes a call. jump_<arch>.S reads the variables
 * below and calls the functions.
 */
#ifndef GF_PRELOAD_HOOK_RESOLVE_JUMP_H
#define GF_PRELOAD_HOOK_RESOLVE_JUMP_H

#include "base/base.h"

#include <dlfcn.h>

/* The originals; NULL until prepared. */
extern _Atomic(__typeof__(dlsym) *) gf_jump_dlsym;
extern _Atomic(__typeof__(dlvsym) *) gf_jump_dlvsym;
extern _Atomic(__typeof__(dlopen) *) gf_jump_dlopen;
/* And-ed with dlopen's mode: drops RTLD_DEEPBIND where two heaps would meet (docs/hooks.md). */
extern _Atomic int gf_jump_dlopen_mask;

void gf_jump_prepare_dlsym(void);
void gf_jump_prepare_dlopen(void);

/*
 * Called before a lookup by RTLD_NEXT. If the name is in the malloc family, points libc's own
 * symbol to the function that serves it. Otherwise a library that calls the next malloc would mix
 * two heaps.
 */
void gf_jump_before_next(void *handle, const char *name);

struct gf_jump_answer {
    void *address;
    uintptr_t is_final; /* 0: jump to the original with the caller's own arguments */
};

/*
 * For names that begin with cu and a capital, with any handle but RTLD_NEXT: the hook of the
 * function that the original returns. dlerror reports what it would report without this library.
 */
struct gf_jump_answer gf_jump_answer(void *handle, const char *name);

#endif
