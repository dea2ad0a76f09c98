/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

/*
 * Thread ids and their number. A child of vfork runs in its parent's memory, with the parent's
 * thread-local variables.
 */

/*
 * Returns the thread id in libc's thread descriptor; 0 if unknown. That id is the id of the calling
 * thread or, in a child of vfork, of the thread that called vfork. A thread's clock id contains
 * this id.
 */
static inline pid_t gf_descriptor_id(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

/*
 * Whether thread-local variables are the calling thread's own. If false, nothing that the calling
 * thread learns about itself may be stored in them.
 */
static inline bool gf_thread_is_own(void)
{
    return gf_descriptor_id() == syscall(SYS_gettid);
}

/*
 * Whether the kernel counts one thread in this process. The directory of a process's threads has a
 * link for each thread, and two more; asking for this number needs no descriptor. False if it is
 * unknown. Keeps errno.
 */
static inline bool gf_thread_is_only_one(void)
{
    struct stat task;
    gf_keep_errno();
    return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0) == 0 &&
           task.st_nlink == 3;
}

/*
 * Size of a stack on which a thread of the library has at least 7/8 MiB: glibc also puts the thread-local variables of
 * all libraries into it. 1 MiB unless they are large, because a thread of the program may get the stack of one that has
 * ended, and may ask for its size. A multiple of 64 KiB.
 */
size_t gf_stack_size(void);

/*
 * Starts a detached thread by `create`, which has the arguments and results of pthread_create. Its stack counts against
 * RLIMIT_AS and RLIMIT_DATA, and the default size (`ulimit -s`) may be too large or too small. Returns 0 or an errno.
 */
static inline int gf_detached_start_by(__typeof__(pthread_create) *create,
                                       void *(*run)(void *closure), void *closure)
{
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);

    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, gf_stack_size());
    error = create(&thread, &attr, run, closure);
    pthread_attr_destroy(&attr);
    return error;
}

/* The same, on a thread of the library. */
static inline int gf_detached_start(void *(*run)(void *closure), void *closure)
{
    return gf_detached_start_by(pthread_create, run, closure);
}

/*
 * Runs code with a descriptor table of its own, in which the library can open files. In the
 * program's table, the program could replace a descriptor of the library by dup2. The library would
 * then close the program's file.
 */

/* The serving threads. A file system that hangs for one does not delay the others. */
enum gf_server {
    gf_server_reads,  /* reads /proc and /sys, and looks at files */
    gf_server_writes, /* writes the files that the user named */
    GF_SERVERS
};

/*
 * Calls work(closure) on another thread, which has its own descriptor table, and waits until it
 * ends: on the serving thread of gf_own_table_serve, or on a new one if this process has no such
 * thread or it is busy. A new thread shares the caller's thread-local variables, so work must not
 * allocate, and must not depend on the thread's id, mask or policy. It has 512 KiB of stack. If the
 * process has one thread or runs under valgrind, or the caller already has its own table, work runs on
 * the calling thread.
 *
 * A new thread begins with copies of the program's descriptors and closes them. The kernel then
 * tells the file systems (`flush`), as at the end of a child process: NFS writes the data of open
 * files back, a FUSE file system may finish an upload, and mq_notify forgets its registration. So
 * nothing may call this function again and again in a process without a serving thread.
 *
 * Returns false if work did not run, because the kernel refuses a thread, or the process is sealed
 * (os/permit.h). A call that starts a thread takes 0.1 ms on a busy machine. It may be made on any
 * thread, inside malloc, in a signal handler and in a forked child. Keeps errno. Asynchronous
 * signals are blocked during the call.
 */
bool gf_own_table_run(void (*work)(void *closure), void *closure);
/* The same, on another serving thread than gf_server_reads. */
bool gf_own_table_run_as(enum gf_server which, void (*work)(void *closure), void *closure);

/*
 * Whether the calling thread may open files. This is so while it runs the work of gf_own_table_run,
 * after it called gf_own_table_leave, and if it is the process's only thread.
 */
bool gf_own_table_is_own(void);

/* Called in a forked child, which may be alone in its process although libc has noted other threads. */
void gf_own_table_in_child(void);

/* Whether the calling thread was created by gf_own_table_run for one call. */
bool gf_own_table_on_short_thread(void);

/*
 * Gives the calling thread its own descriptor table until it ends. Descriptors 0, 1 and 2 of this
 * table are /dev/null. Use it only on threads of the library that neither call the driver nor
 * print. Returns false if the kernel cannot do this. errno may change.
 */
bool gf_own_table_leave(void);

/* Called on a thread that a serving thread has created, which shares the serving thread's table. */
void gf_own_table_joined(void);

/*
 * Makes the calling thread a serving thread of this process: it does the work of the calls of
 * gf_own_table_run, one at a time, so that these calls create no threads. The function first calls
 * begin(), unless that is NULL, then serves. It returns only if the calling thread cannot leave the program's table.
 */
void gf_own_table_serve(enum gf_server which, void (*begin)(void));
/*
 * Like gf_own_table_run, but calls work only on gf_server_reads, for descriptors that stay open
 * there. Returns false if work did not run.
 */
bool gf_own_table_run_on_server(void (*work)(void *closure), void *closure);
