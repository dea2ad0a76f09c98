/* SPDX-License-Identifier: Apache-2.0 */
/* Why the program's threads and worker processes do not feed the GPU. */
#pragma once

#include "abi/trace_api.h"
#include "base/pystack.h"
#include "engine/gputime/shares.h"

/* python_line.c: a thread's line of Python. */

#define GF_PYTHON_PATH 480u

/* The first words of a PyThreadState of CPython 3.9 to 3.15. */
enum { gf_state_previous, gf_state_next, gf_state_interpreter, GF_STATE_WORDS };

/*
 * Copies bytes of a child process, or of this process (pid 0), up to the first unreadable byte.
 * Returns the number of bytes copied. Keeps errno.
 */
size_t gf_process_read_some(pid_t pid, uintptr_t address, void *ret, size_t size);

/* Copies `size` bytes. Returns true if all of them were readable. */
static inline bool gf_process_read(pid_t pid, uintptr_t address, void *ret, size_t size)
{
    return gf_process_read_some(pid, address, ret, size) == size;
}

/*
 * Finds the line of Python that a thread of this process, or of a child process, executes. The
 * thread may run while its frames are read. So they are read twice, and only the outer frames that
 * both readings share are accepted. Reading takes no lock of the interpreter, and runs none of its
 * code. Allocates nothing. Used on the sampler's thread only.
 */

struct gf_python_place {
    /*
     * The innermost line that is in the program's own code: outside the standard library and
     * site-packages, and not generated. See gf_pystack_own_frame.
     */
    struct gf_python_line line;
    /*
     * The frames inside of this line, innermost first, until the next reading. All are in Python's
     * library or in packages, unless the thread has no line in the program's own code.
     */
    const struct gf_pystack_frame *frames;
    size_t count;
    size_t all; /* the number of frames with those outside of this line, which follow in `frames` */
    bool collects; /* garbage is being collected */
};

/*
 * Finds the process's interpreter by calling `find`. If its frames cannot be read, a later call may
 * succeed.
 */
void gf_python_line_open(bool (*find)(struct gf_python *ret));

/*
 * Reads which line a thread executes. state: the address of the thread's PyThreadState. pid: the
 * thread's process; 0: this process. ret_path, unless NULL, becomes the functions of all frames,
 * the outermost first: "train.py:<module>;train.py:step"; "" unless both readings have the same
 * frames. Of a path that is too long, "..." replaces the outermost frames. Returns false if the
 * frames cannot be read.
 */
bool gf_python_line_read(pid_t pid, uintptr_t state, struct gf_python_place *ret,
                         char ret_path[GF_PYTHON_PATH]);

/*
 * Reads the place of a thread of PyTorch's autograd that executes Python, in the interpreter to which
 * this thread state belongs. Returns false if no such thread is found.
 */
bool gf_python_line_read_backward(uintptr_t state, struct gf_python_place *ret);

/*
 * Reads where another thread of the interpreter of this thread state holds the lock of threading whose
 * futex this is. *ret is unchanged if no line of the program inside of a `with` statement of the lock is
 * found in eight other threads.
 */
void gf_python_line_read_holder(uintptr_t state, uintptr_t futex, struct gf_python_line *ret);

/* Whether this thread of this process executes Python. PyTorch's autograd has a state without frames. */
bool gf_python_line_has_frames(uintptr_t state);

/* Whether the thread waits in get() of a queue.SimpleQueue, for this futex. */
bool gf_python_line_is_in_queue(pid_t pid, uintptr_t state, uintptr_t futex);

/*
 * Returns the address of the interpreter's _PyRuntime, and sets *ret_size to its size. Returns 0 if
 * no interpreter is open.
 */
uintptr_t gf_python_line_runtime(size_t *ret_size);

/*
 * Sets *ret_is_lock to whether the futex belongs to Python's lock, which is a part of _PyRuntime.
 * If so, returns the address of the thread state that holds the lock; 0: unknown.
 */
uintptr_t gf_python_line_lock_holder(uintptr_t futex, bool *ret_is_lock);

/*
 * waits.c: decides from facts why a thread does not feed the GPU: its system call, the object of
 * the call's descriptor or futex, and the Python frames above. waits.def has the table. All
 * functions are pure.
 */

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

/* Returns the cause. place: where the thread is; without frames if it is unknown. */
enum gf_host_cause gf_wait_cause(enum gf_wait_kind kind, const struct gf_python_place *place);
/* Whether a running thread is inside of PyTorch or of a model, and so prepares work for the GPU. */
bool gf_wait_prepares_work(const struct gf_python_place *place);

/* Whether a function of which this is a part of the name, in this module or folder, is among the frames. */
bool gf_wait_has_frame(const char *module, const char *function,
                       const struct gf_pystack_frame *frames, size_t count);

/* feeder.c: what the feeding thread does. */

/*
 * How long a thread of this process was runnable without a CPU until now, in ns; 0 if the kernel
 * does not tell. Sets *ret_run_ns to its CPU time. Reads a file, so it must be called in
 * gf_measured_run.
 */
uint64_t gf_run_delay_read(pid_t tid, uint64_t *ret_run_ns);

/*
 * Runs work of the sampler on another thread (os/own_table.h), and sums the CPU time and the
 * run-queue delay of such threads. The sampler limits its own cost, and tells a late sample of a
 * process without a CPU from one of a paused process. The clock and the delay of its own thread do
 * not include other threads.
 */

/*
 * Like gf_own_table_run, but also sets *ret_ns to the CPU time of the work. Called on the sampler's
 * thread only.
 */
bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns);

/* Returns the CPU time of all calls of gf_measured_run, in ns. May be called on any thread. */
uint64_t gf_measured_run_total(void);
/*
 * Returns the run-queue delay of the threads of all calls of gf_measured_run, in ns. Delays below
 * 1 ms in a call are not counted. May be called on any thread.
 */
uint64_t gf_measured_run_delay(void);

/*
 * Reads what a thread does: its system call, the object that it waits for, and whether it was
 * running or waited for a CPU. Called in gf_measured_run. Allocates nothing.
 */

#define GF_FEEDER_TEXT 160u

struct gf_feeder {
    pid_t tid;                 /* the thread of the last reading; 0 before it */
    uint64_t run_ns, delay_ns; /* its CPU time and run-queue delay at that time */
    /* Recent CPU time and run-queue delay: at each reading, half of what they were. */
    uint64_t recent_run_ns, recent_delay_ns;
    int owed; /* thousandths of a reading in which the thread had no CPU, not yet told */
};

struct gf_feeder_facts {
    struct gf_wait wait;
    bool
        starved; /* the thread is runnable; true for the part of the readings in which it had no CPU of late */
    char text[GF_FEEDER_TEXT]; /* /proc/PID/task/T/syscall */
};

/* pid: the thread's process; 0: this process. Returns 0 or -errno of the first file. */
int gf_feeder_read_call(pid_t pid, pid_t tid, struct gf_feeder_facts *ret);
/* Reads what thread `tid` of this process does. Returns 0 or -errno: -ENOENT if it has ended. */
int gf_feeder_read(struct gf_feeder *feeder, pid_t tid, struct gf_feeder_facts *ret);
/* Returns what the thread with this PyThreadState waits for: facts->wait.kind, or gf_wait_queue. */
enum gf_wait_kind gf_feeder_kind(pid_t pid, uintptr_t state, const struct gf_feeder_facts *facts);
/* Whether the thread still does the same as at the reading `facts`. */
bool gf_feeder_is_same(pid_t tid, const struct gf_feeder_facts *facts);

/* workers.c: what worker processes do. */

/*
 * Finds what child processes, such as DataLoader workers, do while the thread that feeds the GPU
 * waits for their data. It reads the system calls, run-queue delays and Python frames of the
 * children, which the kernel usually permits a parent. Used on the sampler's thread only. Allocates
 * nothing.
 */

#define GF_WORKERS 16u

enum gf_worker_state {
    gf_worker_idle, /* the worker waits for work, or has ended */
    gf_worker_busy, /* the worker has run for half of the time since the last reading */
    gf_worker_storage,
    gf_worker_starved, /* the worker had no CPU for most of that time */
    gf_worker_sleeps,
    gf_worker_locked,  /* the worker waits for a lock */
    gf_worker_unknown, /* the worker waits for something else */
    GF_WORKER_STATE_COUNT,
};

struct gf_workers {
    pid_t parent;     /* the thread that created the children; 0: none were listed yet */
    uint64_t list_ns; /* when the children were last listed */
    uint64_t read_ns;
    uint64_t cost_ns;         /* CPU time that the last reading took */
    bool refused;             /* true if the kernel does not let this process read its children */
    enum gf_host_cause cause; /* the cause at the last reading */
    unsigned count;
    struct gf_worker {
        pid_t pid;
        /* The run-queue delay of its main thread and its CPU time at the last reading. */
        uint64_t delay_ns, run_ns;
        bool seen;                  /* true if both are known */
        enum gf_worker_state waits; /* its state when it was last found waiting */
        /* The result of the search for its Python. All zero: nothing was found. */
        struct gf_child_python {
            uintptr_t state;       /* the main thread's state, an address in the child */
            uintptr_t interpreter; /* the interpreter's state, to which `state` points */
        } python;
        uint64_t search_ns; /* when to search again */
        unsigned searches;
    } worker[GF_WORKERS];
};

/*
 * Returns the cause that follows from the number of workers in each state and the number of CPUs
 * that the process may use.
 */
enum gf_host_cause gf_workers_judge(const unsigned states[GF_WORKER_STATE_COUNT], unsigned cpus);

/*
 * Reads the states of the children that the thread `parent` created, and of the children of its
 * fork server. Returns the cause that follows from these states, or gf_host_data if none does.
 * state: the address of the parent's PyThreadState. *ret_line: the line of a worker whose state
 * decides the cause; its `line` is 0 if unknown. All readings together take at most 1/200 of a CPU:
 * after a long reading, the last cause is returned for some time.
 */
enum gf_host_cause gf_workers_read(struct gf_workers *workers, pid_t parent, uintptr_t state,
                                   uint64_t now, struct gf_python_line *ret_line);
