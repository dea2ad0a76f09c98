/* SPDX-License-Identifier: Apache-2.0 */
/* jemalloc calls these by these names: jemalloc.syms. */
#ifndef GF_HEAP_PROFILE_H
#define GF_HEAP_PROFILE_H

#include <unwind.h>

/* Within 1e-14 of libm's for normal results; exp gives 0 below -708 and infinity above 709. */
double gf_heap_log(double x);
double gf_heap_exp(double x);
double gf_heap_round(double x);

/* Once, after jemalloc has started with profiling on: opening a library allocates. */
void gf_profile_start(void);

_Unwind_Reason_Code gf_heap_unwind(_Unwind_Trace_Fn step, void *closure);
_Unwind_Ptr gf_heap_unwind_ip(struct _Unwind_Context *context);
void *gf_heap_dlsym(void *handle, const char *name);

#endif
