/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libm and libgcc_s that jemalloc's heap profiling (MALLOC_CONF=prof:true) needs.
 * jemalloc calls these instead (jemalloc.syms). In a short program, loading the two libraries would
 * be most of the preload library's cost.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_PROFILE_H
#define GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_PROFILE_H

#include <unwind.h>

/* Within 1e-14 of libm for normal results. exp returns 0 below -708 and infinity above 709. */
double gf_heap_log(double x);
double gf_heap_exp(double x);
double gf_heap_round(double x);

/*
 * Opens libgcc_s, which allocates. Called once, after jemalloc has started with profiling enabled.
 */
void gf_profile_start(void);

/* Walks the stack for a profile. Before gf_profile_start, the backtrace is empty. */
_Unwind_Reason_Code gf_heap_unwind(_Unwind_Trace_Fn step, void *closure);
_Unwind_Ptr gf_heap_unwind_ip(struct _Unwind_Context *context);
/* Finds `name`, which is always pthread_create, after this object in search order. */
void *gf_heap_dlsym(void *handle, const char *name);

#endif
