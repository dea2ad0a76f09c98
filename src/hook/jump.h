/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym and dlopen as the program calls them: assembly that jumps, never calls, to the original,
 * because glibc takes the return address for the caller. A call would make RTLD_NEXT and
 * RTLD_DEFAULT answer for the door, and dlopen search the door's RUNPATH; a C sibling call becomes
 * a call at -O0. jump_<arch>.S reads the variables below and calls the functions.
 */
#ifndef GF_HOOK_JUMP_H
#define GF_HOOK_JUMP_H

#include "base/base.h"

#include <dlfcn.h>

/* NULL until prepared. */
extern __typeof__(dlsym) *gf_jump_dlsym;
extern __typeof__(dlopen) *gf_jump_dlopen;
/* And-ed with dlopen's mode: without RTLD_DEEPBIND where two heaps would meet (docs/deepbind.md). */
extern int gf_jump_dlopen_keep;

void gf_jump_prepare_dlsym(void);
void gf_jump_prepare_dlopen(void);

struct gf_jump_answer {
    void *address;
    uintptr_t is_final; /* 0: jump on with the caller's own arguments */
};

/*
 * For names that begin with cu and a capital, asked of anything but RTLD_NEXT: the hook that stands
 * for what the original answers. dlerror is left as the caller would find it.
 */
struct gf_jump_answer gf_jump_answer(void *handle, const char *name);

#endif
