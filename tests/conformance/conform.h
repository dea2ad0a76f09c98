/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance program. It tests a driver, and prints one line for each fact: return codes, the
 * bytes that arrived, the calls that block. It prints no durations. A call "blocks" or returns "at
 * once", compared with work_ns, the duration of the work before it.
 */
#ifndef CONFORM_H
#define CONFORM_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver {
#define USE(name) __typeof__(name) *name;
#include "functions.def"
#undef USE
};

extern struct driver cu;
extern void *driver_handle;
extern uint64_t work_ns; /* CONFORM_MS; 300 if unset */

/* Prints `section.name = text`. */
__attribute__((format(printf, 2, 3))) void row(const char *name, const char *format, ...);
void row_code(const char *name, CUresult result);
/*
 * Makes a call that must succeed. If it fails, ends the program, because later results would be
 * meaningless.
 */
void must(CUresult result, const char *what);
#define MUST(call) must(call, #call)

CUcontext start(void); /* cuInit, and device 0's primary context, made current */
uint64_t now_ns(void);
void sleep_ms(unsigned ms);

/* Puts work of work_ns on a stream: a kernel, or a host function that fills memory when it ends. */
void busy_kernel(CUstream stream);
struct fill {
    volatile bool done;
    unsigned char *at;
    size_t size;
    int value;
};
void busy_fill(CUstream stream, struct fill *fill, unsigned char *at, size_t size, int value);

/* Returns "blocks" or "at once" for a call that began at `since`. */
const char *waited(uint64_t since);
/* Runs a function in another thread, in which the context is current, and waits for its end. */
void in_thread(void (*run)(void *), void *data);

#define KERNELS                                                                                    \
    ".version 7.0\n.target sm_80\n.address_size 64\n"                                              \
    ".visible .entry spin(.param .u64 ns)\n{\n"                                                    \
    ".reg .u64 %a, %b, %n;\n.reg .pred %p;\n"                                                      \
    "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"                                          \
    "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"                                     \
    "setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n"                                           \
    ".visible .entry trap()\n{\ntrap;\nret;\n}\n"                                                  \
    ".visible .entry wild()\n{\n.reg .u64 %a;\nmov.u64 %a, 64;\n"                                  \
    "st.global.u32 [%a], 1;\nret;\n}\n"

CUfunction kernel(const char *name);

void facts_init(void);
void facts_device(void);
void facts_procaddr(void);
void facts_context(void);
void facts_hostmem(void);
void facts_register(void);
void facts_pointer(void);
void facts_stream(void);
void facts_event(void);
void facts_copy(void);
void facts_order(void);
void facts_busy(void);
void facts_forbidden(void);
void facts_capture(void);
void facts_graph(void);
void facts_value(void);
void facts_fork(void);
void facts_trap(void);
void facts_wild(void);

#endif
