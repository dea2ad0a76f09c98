/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls how jemalloc reads MALLOC_CONF and /etc/malloc.conf, which may be meant for another
 * jemalloc on the same machine. Settings that this jemalloc does not know are ignored without a
 * message, and the report names them. The settings abort_conf and confirm_conf, which would abort
 * the process or print text, have no effect.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_CONF_H
#define GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_CONF_H

#include <sys/types.h>

/* Called before and after jemalloc's start. Text that jemalloc would print in between is stored. */
void gf_conf_begin(void);
void gf_conf_end(void);

/* jemalloc calls these (jemalloc.syms). */
char *gf_heap_getenv(const char *name);
ssize_t gf_heap_readlink(const char *path, char *ret, size_t size);

/* gf_heap_ops.ignored_conf */
const char *gf_conf_ignored(void);

#endif
