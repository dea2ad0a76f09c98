/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's tables (the section gf_late_bss, jemalloc.syms) are mapped read-only until jemalloc
 * starts. RLIMIT_DATA counts only memory that a process may write to, so that a process with a small
 * limit starts, and keeps libc's heap.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_LATE_TABLES_H
#define GF_PRELOAD_HEAP_CALLOUTS_LATE_TABLES_H

#include <stdbool.h>

/*
 * Makes the tables writable. False: a limit forbids it, so jemalloc cannot be used. The tables then
 * stay mapped. If they were unmapped, the kernel could map another library inside this library's
 * range of addresses, and look-ups by address would find the wrong library.
 */
bool gf_late_tables_open(void);

#endif
