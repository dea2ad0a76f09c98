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

/* A block whose first bytes tell its size and whose ends are marked; NULL ends the program. */
void *soak_new(uint32_t *seed, size_t size);
/* Fails where a mark is gone. */
void soak_free(void *block);
/* So many of them, looked after for a while. */
void soak_some(uint32_t *seed, unsigned count);

/* Handlers of signals. Once, before threads. */
void soak_prepare(void);
/* What a child that was started anew does; its exit code. */
int soak_child(int code);

/* Threads: until soak_over. The argument is the driver's handle. */
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
