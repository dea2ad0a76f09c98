/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for the small programs: they load the driver, create a context, and start threads. The
 * first error ends the program.
 */
#ifndef KIT_H
#define KIT_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MIB ((size_t)1 << 20)

struct driver {
#define USE(name) __typeof__(name) *name;
#include "functions.def"
#undef USE
};

extern struct driver cu;

/* Loads the driver, makes device 0's primary context current, and sets the alarm of 45 s. */
CUcontext kit_start(void);
/* Sets the alarm, which kills a program whose copy never ends. */
void kit_alarm(unsigned seconds);
/* The rounds of a race: all with the library; without it a tenth, which print the same. */
unsigned kit_rounds(unsigned most);
/* Prints a line on standard output and exits with code 3. */
void kit_fail(const char *what, long got) __attribute__((noreturn));
void kit_must(CUresult result, const char *what);
#define MUST(call) kit_must(call, #call)
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            kit_fail(#condition, 0);                                                               \
    } while (0)

CUdeviceptr kit_device(size_t size);
CUstream kit_stream(void); /* Creates a non-blocking stream. */
unsigned char *kit_pageable(size_t size);
/* The same of huge pages, whose first touch takes a sixth of the CPU time: for memory in which no page differs from others. */
unsigned char *kit_huge(size_t size);
void *kit_pinned(size_t size);
void kit_fill(void *at, size_t size, unsigned seed);
bool kit_is(const void *at, size_t size, unsigned seed);
/* Starts a thread with that context. kit_join joins all threads. */
void kit_thread(CUcontext context, void (*run)(void *), void *data);
void kit_join(void);
void kit_sleep_us(unsigned microseconds);
/*
 * From now on SIGSEGV and SIGBUS end the process with code 50 + signal. The handler prints the
 * signal, the thread, and the text that `where` (or NULL) returns for the address.
 */
void kit_catch_signals(const char *(*where)(uintptr_t at));

/* Puts work on a stream that waits until the host writes the value. */
void kit_hold(CUstream stream, uint32_t *pinned);
void kit_release(uint32_t *pinned);
void kit_release_late(void *pinned); /* after 50 ms */
/*
 * Some drivers let CUDA calls block each other, so a thread that waits for another one may wait for
 * ever. Therefore a thread without CUDA calls writes 1 to all values that are still 0 after
 * KIT_CLOCK seconds (default 3) in which all other threads slept. Seconds in which one ran count a
 * quarter.
 */
void kit_clock(uint32_t *values, unsigned length);
/* Returns whether the clock wrote a value. */
bool kit_clock_struck(void);

/*
 * refusal.c: from now on a system call fails in all threads. The name is that of a row there. Exits
 * with 77 if this machine permits no filter.
 */
void kit_refuse(const char *name);
struct sock_filter;
void kit_install_filter(struct sock_filter *code, unsigned short length);

/*
 * helpers.c: functions that disturb the library's threads and ring. They exit with 77 if this
 * machine does not permit that.
 */
void kit_refuse_helpers(void); /* from now on no helper can be created */
bool kit_sleeps(pid_t tid);    /* whether a thread of this process sleeps, or has ended */
bool kit_others_sleep(void);   /* whether all threads but the caller's do */
/* Waits up to 5 s for this number of helpers, and returns their number. */
unsigned kit_helpers(unsigned wanted);
void kit_await_ring(void); /* copies until the library has a ring in the current context */
/* Fills the memory with ones, and copies it until the ring is as large as such copies need. */
void kit_complete_ring(CUdeviceptr device, unsigned char *host, size_t bytes, CUstream stream);
void kit_starve_helpers(void);
void kit_stop_helpers(void);

/* imports.c */
struct kit_readers {
    ssize_t (*pread)(int, void *, size_t, off_t);
    ssize_t (*read)(int, void *, size_t);
};
/*
 * Finds the functions of libraries that are named like safetensors' and CPython's own. Then waits
 * until libgpufeed has started its threads and replaced the libraries' pointers, at most some
 * seconds. Called after kit_start.
 */
struct kit_readers kit_await_readers(const char *safetensors, const char *python);
/* Returns a number that depends on all bytes and on their order. */
unsigned kit_sum(const unsigned char *at, size_t bytes);

#endif
