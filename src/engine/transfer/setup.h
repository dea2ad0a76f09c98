/* SPDX-License-Identifier: Apache-2.0 */
/* Facts, messages and bounded locks of transfer. */
#pragma once

#include "abi/cuda.h"
#include "abi/gputime_api.h"
#include "base/base.h"
#include "base/cpus.h"
#include "base/log.h"
#include "config/options.h"

#include <pthread.h>
#include <time.h>

/*
 * Facts about the process for the rooms in src/engine/transfer. The engine sets them before it
 * calls any function of these rooms.
 */

enum gf_transfer_event {
    gf_transfer_ring, /* a ring has grown or shrunk, or cannot grow */
    gf_transfer_off,  /* copies or pinned allocations are left to the driver from now on */
};

struct gf_pystack_frame;

struct gf_transfer_setup {
    const struct gf_options *options;
    const struct gf_cuda *cuda; /* any member may be NULL */
    double cpu_quota;           /* the CPU quota in CPUs; 0 if unlimited */
    unsigned rank_cpus;         /* CPUs of this rank, if ranks share the CPUs; else 0 */
    /*
     * Returns the node nearest to a device, or -1 if it is unknown. *ret_cpus is set to the CPUs
     * for copying threads: the node's CPUs that the program itself may use. May allocate. Called on
     * any thread that holds no lock.
     */
    int (*device_node)(CUdevice device, struct gf_cpus *ret_cpus);
    /*
     * Reads the calling thread's memory policy, with mode flags. False: the thread has no policy,
     * its policy was set by the library, or the kernel refuses the query. May be NULL.
     */
    bool (*user_policy)(int *ret_mode, struct gf_nodes *ret_nodes);
    /*
     * Reads the calling thread's Python frames, innermost first, and returns their number
     * (engine_api.h). May be NULL.
     */
    size_t (*python_frames)(struct gf_pystack_frame *ret, size_t cap);
    /* Called on a thread of the library that will allocate. May be NULL. */
    void (*thread_allocates)(void);
    /*
     * Makes the library's own thread call gf_transfer_prepare soon. NULL: the library has no own
     * thread, and the caller does that work itself.
     */
    void (*request_prepare)(void);
    /* The hooks' records of submissions, and the calling thread's index in them (engine_api.h). */
    struct gf_submit_table *submissions;
    unsigned (*submitter)(void);
    /* Whether the driver created the calling thread. */
    bool (*is_drivers)(void);
    /*
     * Writes one line to the event log. Called on any thread, inside a call of the program. May be
     * NULL.
     */
    void (*notify)(enum gf_transfer_event event, const char *text);
};

/* Written by gf_transfer_start only, while no other thread uses these rooms. */
extern struct gf_transfer_setup gf_setup;

/*
 * Writes messages about decisions of the rooms in src/engine/transfer to standard error and to the
 * event log.
 */

/*
 * A call that the library made and that failed: a call of the driver if `result` is not
 * CUDA_SUCCESS, else a system call.
 */
struct gf_fault {
    const char *call;
    int error; /* errno */
    CUresult result;
};

/*
 * Writes "mmap failed: Cannot allocate memory" or "cuEventCreate failed (2)", truncated to `size`.
 */
void gf_fault_text(const struct gf_fault *fault, char *buf, size_t size);

/*
 * GF_LOG_INFO if the program caused the error, for example by a kernel that failed or by ending its
 * context; else GF_LOG_WARN.
 */
enum gf_log_level gf_fault_level(const struct gf_fault *fault);

/*
 * Reports an event on standard error and in the event log. May be called on any thread that holds
 * no lock of src/engine/transfer.
 */
void gf_transfer_notify(enum gf_transfer_event event, enum gf_log_level level, const char *format,
                        ...) GF_PRINTF(3, 4);

/*
 * Bounded lock acquisition for the reporting path. A signal handler may interrupt a thread that
 * holds the lock, and call exit(). A report written by exit() would then wait for the lock forever.
 */

/* False: the lock was not free for about 10 ms. The function is no cancellation point. */
static inline bool gf_timed_lock(pthread_mutex_t *lock)
{
    static const struct timespec pause = {.tv_nsec = 100000};
    for (unsigned i = 0; i < 100; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return true;
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return false;
}
