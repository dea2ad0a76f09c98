/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutants: deliberate bugs of copies of the engine's sources (edits.txt). An environment variable
 * selects one, and at least one test must then fail.
 */
#ifndef GF_TESTS_MUTATION_H
#define GF_TESTS_MUTATION_H

#include "abi/cuda.h"
#include "base/base.h"

bool gf_mutated(const char *name);
void gf_mutation_hold(const char *name); /* takes a lock if the named mutation is active */
void gf_mutation_drop(const char *name);
/*
 * For the mutation reuses_busy_buffers: keeps a freed pinned buffer and hands it out again,
 * although the device may still use it.
 */
bool gf_mutation_keep(void *p, CUresult *ret_result);
bool gf_mutation_again(void **pp, size_t bytes, CUresult *ret_result);
void gf_mutation_sleep(const char *name); /* sleeps for 20 ms, if the named mutation is active */
/* For the mutation delivers_stale_bytes: stores bytes that are read ahead. */
void gf_mutation_store_ahead(const void *at, size_t bytes);
/*
 * Changes `to`, a copy of the range, for three mutations. delivers_stale_bytes: to the stored bytes.
 * reads_the_file: to those of the mapping's file. zeroes_the_tail: to zero behind the file's end.
 */
void gf_mutation_change_copy(void *to, const void *at, size_t bytes);
/*
 * For the mutation marks_the_stream: puts a mark on the stream. It takes 20 ms, so that another
 * thread sees it on a busy machine, too.
 */
void gf_mutation_mark(CUstream stream);
#define GF_MUTATED(name) gf_mutated(#name)
#define GF_MUTATION_HOLD(name) gf_mutation_hold(#name)
#define GF_MUTATION_DROP(name) gf_mutation_drop(#name)
#define GF_MUTATION_SLEEP(name) gf_mutation_sleep(#name)

#endif
