/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TESTS_SOAK_H
#define GF_TESTS_SOAK_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern volatile bool soak_over;

struct soak_tally {
    unsigned long mixed, exchanged, batches, threads, children, signals, faults, mappings, copies;
};
extern struct soak_tally soak_tally;

void soak_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
uint32_t soak_random(uint32_t *seed);

/*
 * Allocates a block. Its first bytes hold its size and both ends are marked. If allocation fails,
 * the program ends.
 */
void *soak_new(uint32_t *seed, size_t size);
/* Frees a block. Ends the program if a mark was changed. */
void soak_free(void *block);
/* Allocates that many blocks, and keeps them for a while. */
void soak_some(uint32_t *seed, unsigned count);

/* Installs the signal handlers. Called once, before threads start. */
void soak_prepare(void);
/* Does the work of a child that was executed anew, and returns the child's exit code. */
int soak_child(int code);

/*
 * The main functions of threads. They return when soak_over is set. The argument is the driver's
 * handle.
 */
void *soak_mix(void *driver);
void *soak_exchange(void *driver);
void *soak_batches(void *driver);
void *soak_thread_churn(void *driver);
void *soak_mappings(void *driver);
void *soak_copies(void *driver);
void *soak_forks(void *driver);
void *soak_signals(void *driver);
void *soak_faults(void *driver);

#endif
