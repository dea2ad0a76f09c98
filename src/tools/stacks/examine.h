/* SPDX-License-Identifier: Apache-2.0 */
/* Examines another process, from its threads up to their stacks. */
#pragma once

#include "base/pystack.h"

#include <stdio.h>
#include <sys/user.h>

/*
 * target.c: another process whose threads are stopped by ptrace, so that their stacks can be read.
 */

struct gf_target_thread {
    pid_t tid;
    bool stopped; /* false: its registers cannot be read, for the reason in `error` */
    int error;  /* errno of the attempt to stop it; ETIMEDOUT: it does not stop; 0: no time left */
    int signal; /* arrived when the thread stopped, and is delivered when it continues */
    /*
     * All 0 unless it has stopped. x86-64's C library keeps pthread_self() in the base of segment fs.
     */
    struct user_regs_struct registers;
    char name[32];
    char state;     /* its state before it was stopped, as in /proc/PID/stat: R, S, D, T or Z */
    long syscall;   /* number of the system call in which it waits; -1: none, or unknown */
    char cpus[256]; /* the CPUs that it may use, as a list */
    int cpu;        /* the CPU that it ran on last; -1: unknown */
};

struct gf_target {
    pid_t pid;
    struct gf_target_thread *threads; /* sorted by thread id */
    size_t count;
    uint64_t until_ns; /* no memory is read after this time */
    uint64_t since_ns; /* when the first thread was told to stop */
    uint8_t *known;    /* a bit for each thread id */
};

/*
 * Describes all threads of a process, then stops them and reads their registers, also threads that
 * start during the call. All of this takes a limited time: threads that do not stop, and the last of
 * very many threads, keep running. Returns 0 or an errno: ESRCH if the process does not exist, EPERM
 * if none of its threads may be traced, ENOMEM. The caller calls gf_target_release in every case, on
 * the same thread.
 */
int gf_target_stop(struct gf_target *target, pid_t pid);

/*
 * Lets the stopped threads continue as they were, and frees the memory. The kernel detaches the other
 * threads when the calling process ends, so it should end soon.
 */
void gf_target_release(struct gf_target *target);

/*
 * Reads memory of the process (pystack.h). closure is the struct gf_target. May be called in a child
 * process. If a page is in a file whose file system does not answer, the call hangs in the kernel.
 */
size_t gf_target_read(void *closure, uintptr_t address, void *ret, size_t size);

/* objects.c: lines of /proc/PID/maps. */
struct gf_maps_line {
    uintptr_t start, end, offset;
    bool executable;
    ino_t inode;
    const char *path; /* within the line; "" if the mapping has no name */
    char text[4096 + 128];
};

/*
 * Opens the process's list of mappings. Returns NULL and sets errno if the list cannot be read. The
 * caller closes the result with fclose.
 */
FILE *gf_maps_open(pid_t pid);

/*
 * Reads the next line that has the form documented in proc(5), and skips other lines. Returns false
 * if no line is left.
 */
bool gf_maps_next(FILE *maps, struct gf_maps_line *ret);

/*
 * Writes a path by which this process can open the file of a mapping. In a container, the mapping
 * has the path below the process's root; after chroot, the path below this process's root.
 */
void gf_maps_file(pid_t pid, const char *path, ino_t inode, char *ret, size_t size);

/* The objects that a process has mapped, and the functions in them, from their symbol tables. */

struct gf_objects;

/*
 * Reads the process's mappings of code. Returns NULL if they cannot be read, or if memory is short.
 * Only one thread may use the result, which is never freed: the caller is a child process that ends.
 */
struct gf_objects *gf_objects_read(pid_t pid);

/*
 * Writes "function+0x12 (object)". If no symbol covers the address, for example in a stripped
 * object, writes "object+0x1234". For an address outside of all objects, writes only the address.
 * The object's path, and so the text, may contain any character. Returns false if the process has
 * mapped no code at the address, and true if the mappings are not known.
 */
bool gf_objects_name(struct gf_objects *objects, uintptr_t address, char *ret, size_t size);

/*
 * python_threads.c: the Python interpreter of another process, and which of its threads run Python.
 * Thread states are found without offsets of a particular CPython version. A thread state contains
 * its thread's pthread_self(), a pointer to its interpreter, and pointers to its neighbours.
 */

/* A thread state of one thread, which has one in each interpreter that it has entered. */
struct gf_python_state {
    size_t thread; /* index in the target's threads */
    uintptr_t state;
};

struct gf_python_threads {
    const struct gf_pystack_layout *layout; /* NULL: frames of that version cannot be read */
    char version[32];                       /* "3.11"; "": no interpreter was found */
    /* Those of the newest interpreter come first. */
    struct gf_python_state *states;
    size_t count;
};

/*
 * Returns 0 or an errno: ENOENT if the process has no interpreter that exports _PyRuntime, ENOTSUP
 * if frames of its version cannot be read, ENOMEM. The states are never freed: the caller is a child
 * process that ends.
 */
int gf_python_threads_find(struct gf_python_threads *python, struct gf_target *target);

/*
 * collect.c: reads the stacks of another process. A child process traces the threads, its own child
 * reads their memory and files within a time limit, and then both end. So the threads continue
 * whatever happens to this process or to the reader: a full pipe at the output, a signal, or a file
 * that cannot be read. The kernel detaches the threads of a tracer that ends, also those that
 * cannot be detached because they never stopped.
 */

#define GF_COLLECT_FRAMES 128 /* of each kind and thread */

struct gf_stack {
    struct gf_target_thread thread;
    bool read; /* false: the time was over before */
    struct gf_pystack_frame *python;
    uintptr_t *native;
    uint32_t python_count, native_count;
    bool python_cut, native_cut; /* there are more frames, which were not read */
    char name[64];               /* of Python's Thread; "" if unknown */
};

struct gf_collected {
    char python[32];  /* the interpreter's version; "" for a process without Python */
    int python_error; /* of gf_python_threads_find */
    struct gf_stack *stacks;
    size_t count;
    uint64_t stopped_ns; /* how long the first thread that stopped was stopped, at most */
};

/*
 * native: whether native frames are read, too. Returns 0 or an errno: ESRCH if the process does not exist, EPERM if none of its
 * threads may be traced, ENOMEM, ETIMEDOUT if not even the list of threads was read in time. The caller calls
 * gf_collected_free in every case.
 */
int gf_collect(pid_t pid, bool native, struct gf_collected *ret);
void gf_collected_free(struct gf_collected *collected);
