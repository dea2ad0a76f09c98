/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>
#include <unwind.h>

/*
 * Controls how jemalloc reads MALLOC_CONF and /etc/malloc.conf, which may be meant for another
 * jemalloc on the same machine. Settings that this jemalloc does not know are ignored without a
 * message, and the report names them. The settings abort_conf and confirm_conf, which would abort
 * the process or print text, have no effect.
 */

/*
 * The je_malloc_message of jemalloc's start: stores a line that jemalloc would print. Lines that do not
 * concern a setting are dropped.
 */
void gf_conf_keep_message(void *closure, const char *text);

/* jemalloc calls these (jemalloc.syms). */
char *gf_heap_getenv(const char *name);
ssize_t gf_heap_readlink(const char *path, char *ret, size_t size);

/* gf_heap_ops.ignored_conf */
const char *gf_conf_ignored(void);

/*
 * The functions of libm and libgcc_s that jemalloc's heap profiling (MALLOC_CONF=prof:true) needs.
 * jemalloc calls the functions below instead (jemalloc.syms). In a short program, loading the two
 * libraries would take most of the time that the preload library costs.
 */

/*
 * Results that are normal numbers are within 1e-14 of libm's. exp returns 0 below -708 and infinity
 * above 709.
 */
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
/*
 * Returns the next definition of `name` after this object in search order. `name` is always
 * pthread_create.
 */
void *gf_heap_dlsym(void *handle, const char *name);
