/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libm and libgcc_s that jemalloc's heap profiling (MALLOC_CONF=prof:true) needs.
 * jemalloc calls them by these names (jemalloc.syms). Loading the two libraries would be most of
 * the cost of the preload library in a short program.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_PROFILE_H
#define GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_PROFILE_H

#include <unwind.h>

/* Within 1e-14 of libm for normal results. exp returns 0 below -708 and infinity above 709. */
double gf_heap_log(double x);
double gf_heap_exp(double x);
double gf_heap_round(double x);

/*
 * Opens libgcc_s. Called once, after jemalloc has started with profiling on, because this
 * allocates.
 */
void gf_profile_start(void);

/* Finds the backtrace for a profile. Before gf_profile_start, the backtrace is empty. */
_Unwind_Reason_Code gf_heap_unwind(_Unwind_Trace_Fn step, void *closure);
_Unwind_Ptr gf_heap_unwind_ip(struct _Unwind_Context *context);
/* Looks up the function in the next object. Only pthread_create is looked up. */
void *gf_heap_dlsym(void *handle, const char *name);

#endif
