/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host_causes.h"

#include "base/fmt.h"
#include "engine/gputime/step_facts.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <time.h>

/*
 * Finds the PyThreadState of the main thread of a child process. In a forked child, it is the state
 * of the thread that forked. A child that multiprocessing started by `spawn` or `forkserver` has
 * executed the interpreter's file again, so its addresses differ. In such a child, the interpreter
 * is found by its file in the list of mappings. The offsets of the members that lead to the thread
 * state are found in this process, which runs the same interpreter. So they need no table of
 * CPython's versions.
 */

#define TEXT 4096u
#define STATES 256u /* the most thread states of a list that are read; a damaged list has no end */
/*
 * How many words are searched for the pointer to the interpreter's state, and for the pointer to
 * the list of thread states. In CPython 3.15 they are at word 117 of _PyRuntime, and at word 917 of
 * the interpreter's state.
 */
#define RUNTIME_WORDS 1024u
#define INTERPRETER_WORDS 4096u

struct mapping {
    uintptr_t start, end;
    uint64_t offset, inode;
    unsigned major, minor;
};

/* How the words of _PyRuntime lead to the list of thread states: offsets in bytes. */
struct chain {
    uintptr_t interpreter; /* in _PyRuntime */
    uintptr_t states;      /* in the interpreter's state */
};

/* The mapping of the first bytes of the file that contains the interpreter. */
static struct mapping own_file;

/* Parses a line such as "55d0c0000000-55d0c0021000 r--p 00000000 08:01 1234 /usr/bin/python3". */
static bool parse_mapping(const char *line, struct mapping *ret)
{
    char *at;

    ret->start = strtoul(line, &at, 16);
    if (*at != '-')
        return false;
    ret->end = strtoul(at + 1, &at, 16);
    if (strlen(at) < sizeof(" r--p "))
        return false;
    ret->offset = strtoul(at + strlen(" r--p "), &at, 16);
    ret->major = (unsigned)strtoul(at, &at, 16);
    if (*at != ':')
        return false;
    ret->minor = (unsigned)strtoul(at + 1, &at, 16);
    ret->inode = strtoul(at, NULL, 10);
    return true;
}

static bool is_start_of_file(const struct mapping *mapping)
{
    return mapping->inode && !mapping->offset;
}

/* Returns the next mapping in the file; false after the last one. */
static bool next_mapping(struct gf_procfs_lines *lines, struct mapping *ret)
{
    const char *line;

    while ((line = gf_procfs_lines_next(lines)))
        if (!lines->continued && parse_mapping(line, ret))
            return true;
    return false;
}

/*
 * The mappings of an object follow each other, and the first one contains the file's first bytes.
 */
static bool find_own_file(uintptr_t runtime)
{
    char text[TEXT];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    struct mapping mapping, start = {0};
    bool found = false;

    if (own_file.inode)
        return true;
    if (!gf_procfs_lines_open(&lines, "/proc/self/maps"))
        return false;
    while (!found && next_mapping(&lines, &mapping)) {
        if (is_start_of_file(&mapping))
            start = mapping;
        found = runtime - mapping.start < mapping.end - mapping.start;
    }
    gf_procfs_lines_close(&lines);
    if (found)
        own_file = start;
    return found && start.inode;
}

/* Returns the address of _PyRuntime in the child; 0 if the child has not mapped the interpreter. */
static uintptr_t find_runtime(pid_t pid, uintptr_t own)
{
    char text[TEXT], path[32];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    struct mapping mapping;
    uintptr_t found = 0;

    gf_fmt(path, sizeof(path), "/proc/%d/maps", pid);
    if (!find_own_file(own) || !gf_procfs_lines_open(&lines, path))
        return 0;
    while (!found && next_mapping(&lines, &mapping))
        if (is_start_of_file(&mapping) && mapping.inode == own_file.inode &&
            mapping.major == own_file.major && mapping.minor == own_file.minor)
            found = mapping.start + (own - own_file.start);
    gf_procfs_lines_close(&lines);
    return found;
}

static bool read_word(pid_t pid, uintptr_t address, uintptr_t *ret)
{
    return gf_process_read(pid, address, ret, sizeof(*ret));
}

/* Searches this process's memory for a word. Returns its distance from `from`; -1 if not found. */
static intptr_t find_word(uintptr_t from, size_t count, uintptr_t word)
{
    uintptr_t words[128];

    for (size_t at = 0; at < count; at += GF_ARRAY_LEN(words)) {
        const size_t got =
            gf_process_read_some(0, from + at * sizeof(*words), words, sizeof(words));
        for (size_t i = 0; i < gf_min(got / sizeof(*words), count - at); i++)
            if (words[i] == word)
                return (intptr_t)((at + i) * sizeof(*words));
        if (got < sizeof(words))
            break;
    }
    return -1;
}

/* Returns the thread state at one end of the list that contains `state`; 0 if it is damaged. */
static uintptr_t find_end(pid_t pid, uintptr_t state, uintptr_t interpreter, int direction)
{
    uintptr_t words[GF_STATE_WORDS];

    for (unsigned i = 0; i < STATES; i++) {
        if (!gf_process_read(pid, state, words, sizeof(words)) ||
            words[gf_state_interpreter] != interpreter)
            return 0;
        if (!words[direction])
            return state;
        state = words[direction];
    }
    return 0;
}

/*
 * _PyRuntime has the addresses of the newest interpreter and of the main interpreter, one after the
 * other. In this process both may be the same. In the child, only the second is the interpreter of
 * the main thread.
 */
static uintptr_t main_after(uintptr_t runtime, uintptr_t newest, uintptr_t interpreter)
{
    uintptr_t after;
    const uintptr_t next = newest + sizeof(after);
    return read_word(0, runtime + next, &after) && after == interpreter ? next : newest;
}

/* Finds in this process at which offsets the pointers are. `state`: any thread's state. */
static bool find_chain(uintptr_t runtime, size_t size, uintptr_t state, struct chain *ret)
{
    uintptr_t words[GF_STATE_WORDS];

    if (!gf_process_read(0, state, words, sizeof(words)))
        return false;
    const uintptr_t interpreter = words[gf_state_interpreter],
                    first = find_end(0, state, interpreter, gf_state_previous);
    if (!first)
        return false;
    const size_t words_most = gf_min(size / sizeof(uintptr_t), (size_t)RUNTIME_WORDS);
    const intptr_t in_runtime = find_word(runtime, words_most, interpreter);
    const intptr_t in_interpreter = find_word(interpreter, INTERPRETER_WORDS, first);
    if (in_runtime < 0 || in_interpreter < 0)
        return false;
    *ret = (struct chain){main_after(runtime, (uintptr_t)in_runtime, interpreter),
                          (uintptr_t)in_interpreter};
    return true;
}

static bool belongs_to(pid_t pid, uintptr_t state, uintptr_t interpreter)
{
    uintptr_t found;
    return state && interpreter &&
           read_word(pid, state + gf_state_interpreter * sizeof(found), &found) &&
           found == interpreter;
}

/*
 * Returns the child's thread state if it is the parent's, or if a search found it; 0 if it is
 * unknown. parent_state: the thread state of the thread that started the child. Takes one or two
 * system calls.
 */
static uintptr_t gf_child_python_state(struct gf_child_python *child, pid_t pid,
                                       uintptr_t parent_state)
{
    uintptr_t interpreter;

    if (belongs_to(pid, child->state, child->interpreter))
        return child->state;
    *child = (struct gf_child_python){0};
    if (!parent_state ||
        !read_word(0, parent_state + gf_state_interpreter * sizeof(interpreter), &interpreter))
        return 0;
    return belongs_to(pid, parent_state, interpreter) ? parent_state : 0;
}

/*
 * Searches for the child's thread state. Returns true if it is found. New thread states are put at
 * the front of the list, so the main thread's state is the last. Reads the child's list of
 * mappings, which takes about 1 ms of CPU time if there are a thousand. Called in gf_measured_run.
 */
static bool gf_child_python_search(struct gf_child_python *child, pid_t pid, uintptr_t parent_state)
{
    size_t size;
    const uintptr_t own = gf_python_line_runtime(&size);
    struct chain chain;
    uintptr_t interpreter, first;

    if (!own || !parent_state || !find_chain(own, size, parent_state, &chain))
        return false;
    const uintptr_t runtime = find_runtime(pid, own);
    if (!runtime || !read_word(pid, runtime + chain.interpreter, &interpreter) || !interpreter ||
        !read_word(pid, interpreter + chain.states, &first) || !first)
        return false;
    *child =
        (struct gf_child_python){find_end(pid, first, interpreter, gf_state_next), interpreter};
    return child->state != 0;
}

#define LIST_NS UINT64_C(2000000000)
#define SEARCH_NS UINT64_C(250000000) /* before the second search; doubled after each search */
#define SEARCH_DOUBLINGS 5u
#define COST_TIMES 200u /* after a reading, none is made for this many times its CPU time */

/*
 * The result of a reading: the number of children in each state, and the line of one child in each
 * state.
 */
struct readings {
    struct gf_workers *workers;
    uint64_t now;
    uintptr_t state;
    bool searched; /* true if this reading has searched for a child's Python */
    unsigned states[GF_WORKER_STATE_COUNT];
    struct gf_python_line line[GF_WORKER_STATE_COUNT];
};

/* Adds a child to the list. If the previous list contains it, its data is copied from there. */
static void add_worker(struct gf_workers *workers, const struct gf_workers *before, pid_t pid)
{
    if (workers->count == GF_WORKERS)
        return;
    struct gf_worker *worker = &workers->worker[workers->count++];
    *worker = (struct gf_worker){.pid = pid};
    for (unsigned i = 0; i < before->count; i++)
        if (before->worker[i].pid == pid)
            *worker = before->worker[i];
}

/*
 * Whether the child is the server that multiprocessing starts for its start method `forkserver`.
 * The server forks the workers.
 */
static bool is_fork_server(pid_t pid)
{
    static const char module[] = "multiprocessing.forkserver";
    char text[512];
    const int length = gf_procfs_read(text, sizeof(text), "", "proc/%d/cmdline", pid);

    return length > 0 && memmem(text, (size_t)length, module, sizeof(module) - 1);
}

/* Lists the children that a thread started. Returns their number. */
static unsigned list_children(pid_t pid, pid_t tid, pid_t ret[GF_WORKERS])
{
    char text[512];
    unsigned count = 0;

    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/children", pid, tid) <= 0)
        return 0;
    for (char *p = text; *p >= '0' && *p <= '9' && count < GF_WORKERS;) {
        ret[count++] = (pid_t)gf_procfs_number(p);
        p += strspn(p, "0123456789");
        p += strspn(p, " ");
    }
    return count;
}

static void list_workers(struct gf_workers *workers)
{
    const struct gf_workers before = *workers;
    pid_t children[GF_WORKERS], forked[GF_WORKERS];
    const unsigned count = list_children(getpid(), workers->parent, children);

    workers->count = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_fork_server(children[i])) {
            add_worker(workers, &before, children[i]);
            continue;
        }
        const unsigned more = list_children(children[i], children[i], forked);
        for (unsigned k = 0; k < more; k++)
            add_worker(workers, &before, forked[k]);
    }
}

/* Returns the CPU time of a process, which any process may read; 0 if it has ended. */
static uint64_t read_cpu_ns(pid_t pid)
{
    struct timespec now;
    const clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | 2u);

    return syscall(SYS_clock_gettime, clock, &now)
               ? 0
               : (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Returns gf_worker_busy or gf_worker_starved if the child was runnable for half of the time since
 * the last reading; else gf_worker_idle.
 */
static enum gf_worker_state read_use(struct gf_worker *worker, uint64_t passed)
{
    char text[96];
    const struct gf_worker before = *worker;
    const bool known = gf_procfs_read(text, sizeof(text), "", "proc/%d/schedstat", worker->pid) > 0;
    const char *second = known ? strchr(text, ' ') : NULL;
    worker->delay_ns = second ? gf_procfs_number(second + 1) : 0;
    worker->run_ns = read_cpu_ns(worker->pid);
    worker->seen = true;
    const uint64_t run = worker->run_ns - gf_min(before.run_ns, worker->run_ns),
                   delay = worker->delay_ns - gf_min(before.delay_ns, worker->delay_ns);
    if (!before.seen || 2 * (run + delay) < passed)
        return gf_worker_idle;
    return delay > run ? gf_worker_starved : gf_worker_busy;
}

/* has_frames: the cause follows from Python frames, too. */
static enum gf_worker_state state_of_cause(enum gf_host_cause cause, bool has_frames)
{
    switch (cause) {
    case gf_host_data:
    case gf_host_process:
    case gf_host_queue:
    case gf_host_queue_full:
    case gf_host_input:
    case gf_host_other:
        return gf_worker_idle;
    case gf_host_computing:
    case gf_host_optimizer:
    case gf_host_loader:
    case gf_host_compile:
    case gf_host_gc:
        return gf_worker_busy;
    case gf_host_network:
    case gf_host_download:
    case gf_host_file:
    case gf_host_file_write:
    case gf_host_fault:
    case gf_host_checkpoint:
        return gf_worker_storage;
    case gf_host_sleep:
        return gf_worker_sleeps;
    default: /* without frames, it may wait for work in a queue */
        return !has_frames             ? gf_worker_idle
               : cause == gf_host_lock ? gf_worker_locked
                                       : gf_worker_unknown;
    }
}

/*
 * Returns the address of the child's thread state; 0 if it is unknown. A reading makes one search
 * at most, because a long reading delays the next one. A child without Python is searched for
 * rarely.
 */
static uintptr_t find_state(struct readings *r, struct gf_worker *worker)
{
    const uintptr_t known = gf_child_python_state(&worker->python, worker->pid, r->state);

    if (known || r->searched || r->now < worker->search_ns)
        return known;
    r->searched = true;
    worker->search_ns = r->now + (SEARCH_NS << worker->searches);
    worker->searches = gf_min(worker->searches + 1, SEARCH_DOUBLINGS);
    return gf_child_python_search(&worker->python, worker->pid, r->state) ? worker->python.state
                                                                          : 0;
}

/*
 * If the kernel refuses a reading, no further reading is made, because the audit system may log each
 * refusal. A child that is found running, but mostly slept, does what it last waited for.
 */
static void read_worker(struct readings *r, struct gf_worker *worker, uint64_t passed)
{
    struct gf_python_place place = {0};
    struct gf_feeder_facts facts;
    enum gf_worker_state state = read_use(worker, passed);
    const int error = gf_feeder_read_call(worker->pid, worker->pid, &facts);

    r->workers->refused |= error == -EPERM || error == -EACCES;
    if (r->workers->refused)
        return;
    const uintptr_t python = find_state(r, worker);
    const bool has_frames = gf_python_line_read(worker->pid, python, &place, NULL);
    const enum gf_host_cause cause =
        gf_wait_cause(gf_feeder_kind(worker->pid, python, &facts), &place);
    if (facts.wait.kind != gf_wait_running)
        worker->waits = state_of_cause(cause, has_frames);
    if (state == gf_worker_idle)
        state = worker->waits;
    r->states[state]++;
    if (place.line.line)
        r->line[state] = place.line;
}

static void read_workers(void *closure)
{
    struct readings *r = closure;
    struct gf_workers *workers = r->workers;
    const uint64_t passed = r->now - workers->read_ns;

    if (r->now - workers->list_ns >= LIST_NS) {
        list_workers(workers);
        workers->list_ns = r->now;
    }
    for (unsigned i = 0; i < workers->count && !workers->refused; i++)
        read_worker(r, &workers->worker[i], passed);
    workers->read_ns = r->now;
}

/*
 * A child that waits for a lock waits for another one, so it decides only if no other one is at
 * work.
 */
enum gf_host_cause gf_workers_judge(const unsigned states[GF_WORKER_STATE_COUNT], unsigned cpus)
{
    const unsigned busy = states[gf_worker_busy], storage = states[gf_worker_storage],
                   starved = states[gf_worker_starved], sleeps = states[gf_worker_sleeps];

    if (!busy && !storage && !starved && !sleeps)
        return states[gf_worker_locked] ? gf_host_workers_lock : gf_host_data;
    if (sleeps > busy && sleeps > storage && sleeps > starved)
        return gf_host_workers_sleep;
    if (starved >= busy && starved >= storage)
        return gf_host_worker_cpus;
    if (storage >= busy)
        return gf_host_storage;
    return busy + starved >= cpus ? gf_host_transform : gf_host_few_workers;
}

static enum gf_worker_state state_behind(enum gf_host_cause cause)
{
    return cause == gf_host_worker_cpus     ? gf_worker_starved
           : cause == gf_host_storage       ? gf_worker_storage
           : cause == gf_host_workers_sleep ? gf_worker_sleeps
           : cause == gf_host_workers_lock  ? gf_worker_locked
                                            : gf_worker_busy;
}

enum gf_host_cause gf_workers_read(struct gf_workers *workers, pid_t parent, uintptr_t state,
                                   uint64_t now, struct gf_python_line *ret_line)
{
    struct readings r = {.workers = workers, .now = now, .state = state};

    ret_line->line = 0;
    if (workers->parent != parent) {
        workers->parent = parent;
        workers->list_ns = 0;
    }
    if (workers->refused)
        return gf_host_data;
    if (now - workers->read_ns < COST_TIMES * workers->cost_ns)
        return workers->cause;
    if (!gf_measured_run(read_workers, &r, &workers->cost_ns) || workers->refused)
        return gf_host_data;
    workers->cause = gf_workers_judge(r.states, gf_cpu_use_cpus());
    if (workers->cause != gf_host_data)
        *ret_line = r.line[state_behind(workers->cause)];
    return workers->cause;
}
