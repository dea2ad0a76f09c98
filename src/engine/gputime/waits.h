/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides from facts why a thread does not feed the GPU: its system call, the object of the call's
 * descriptor or futex, and the Python frames above. waits.def has the table. All functions are pure.
 */
#pragma once

#include "base/pystack.h"
#include "engine/gputime/shares.h"

/* What a thread does or waits for, as the kernel shows it. */
enum gf_wait_kind {
    gf_wait_unknown,
    gf_wait_unread, /* the kernel shows nothing, or the thread has ended */
    gf_wait_running,
    gf_wait_sleep,
    gf_wait_lock,  /* a semaphore, as Python's locks are, or a lock of a file */
    gf_wait_queue, /* a queue.SimpleQueue of Python */
    gf_wait_futex, /* another futex: a mutex, a condition, or a library's own */
    gf_wait_poll,
    gf_wait_pipe_read,
    gf_wait_pipe_write,
    gf_wait_terminal_read,
    gf_wait_terminal_write,
    gf_wait_socket,
    gf_wait_accept, /* a connection or a signal */
    gf_wait_event,  /* an eventfd or another descriptor without a file */
    gf_wait_child,  /* the end of a child process */
    gf_wait_file,   /* data or names of files */
    gf_wait_file_write,
    gf_wait_fault, /* a page, outside of a system call */
    GF_WAIT_KIND_COUNT,
};

struct gf_wait {
    enum gf_wait_kind kind;
    int fd;      /* the descriptor that the thread waits for, or -1; gf_wait_by_link sets kind */
    bool writes; /* true if the thread writes to it */
    uintptr_t futex; /* the futex that the thread waits for, or 0; gf_wait_by_futex sets kind */
    bool is_private; /* true if only this process uses the futex */
};

/* Fills in *ret from the text of /proc/self/task/T/syscall. */
void gf_wait_by_syscall(const char *text, struct gf_wait *ret);
/* link: the target of the descriptor's link in /proc/PID/fd. */
enum gf_wait_kind gf_wait_by_link(const char *link, bool writes);
/* words: the futex and the three words after it. A semaphore of glibc has them in a known form. */
enum gf_wait_kind gf_wait_by_futex(const struct gf_wait *wait, const uint32_t words[4]);

/*
 * Returns the path of a module below the folder of Python's library or of installed packages;
 * NULL for a file of the program.
 */
const char *gf_wait_module(const char *file);

/* Whether the cause is known by frames alone, whatever the thread waits for. */
bool gf_wait_is_by_frames(enum gf_host_cause cause);

/*
 * Returns the cause. frames: the thread's Python frames, innermost first, up to the first one in a
 * file of the program.
 */
enum gf_host_cause gf_wait_cause(enum gf_wait_kind kind, const struct gf_pystack_frame *frames,
                                 size_t count);
