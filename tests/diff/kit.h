/* SPDX-License-Identifier: Apache-2.0 */
/* What the small programs share: the driver, one context, threads that end with the first mistake.
 */
#ifndef KIT_H
#define KIT_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)

struct driver {
#define USE(name) __typeof__(name) *name;
#include "functions.def"
#undef USE
};

extern struct driver cu;

/* Loads the driver, makes device 0's primary context current, sets the alarm of 10 s. */
CUcontext kit_start(void);
/* The alarm; a program under which a copy never ends dies of it. */
void kit_alarm(unsigned seconds);
/* Exit code 3 and a line on standard output. */
void kit_fail(const char *what, long got) __attribute__((noreturn));
void kit_must(CUresult result, const char *what);
#define MUST(call) kit_must(call, #call)
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            kit_fail(#condition, 0);                                                               \
    } while (0)

CUdeviceptr kit_device(size_t size);
CUstream kit_stream(void); /* non-blocking */
unsigned char *kit_pageable(size_t size);
void *kit_pinned(size_t size);
void kit_fill(void *at, size_t size, unsigned seed);
bool kit_is(const void *at, size_t size, unsigned seed);
/* Starts a thread with that context; threads are joined by kit_join. */
void kit_thread(CUcontext context, void (*run)(void *), void *data);
void kit_join(void);
void kit_sleep_us(unsigned microseconds);

/* Work that holds a stream up until the host writes the value. */
void kit_hold(CUstream stream, uint32_t *pinned);
void kit_release(uint32_t *pinned);
void kit_release_late(void *pinned); /* after 50 ms */
/*
 * Who waits for another thread's CUDA calls may wait for ever in the driver, whose calls may hold
 * up one another. So that such a program ends on every driver, a thread that makes no CUDA call
 * writes 1 to all of the values that are 0 after KIT_CLOCK seconds (3).
 */
void kit_clock(uint32_t *values, unsigned length);
/* Whether there was something left for it to write. */
bool kit_clock_struck(void);

/* helpers.c: the library's threads and ring. All exit with 77 where they cannot do it. */
void kit_refuse_question(void); /* what a mapping is (PROCMAP_QUERY, Linux 6.11) */
void kit_refuse_helpers(void); /* none is made from here on */
unsigned kit_helpers(unsigned wanted); /* how many there are, once there are so many or 5 s have gone */
void kit_await_ring(void); /* copies until the library has one, in the current context */
void kit_starve_helpers(void);
void kit_stop_helpers(void);

#endif
