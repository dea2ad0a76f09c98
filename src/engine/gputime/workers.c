/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/workers.h"

#include "base/fmt.h"
#include "engine/gputime/cpu_use.h"
#include "engine/gputime/feeder.h"
#include "engine/gputime/measured_run.h"
#include "os/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static bool was_starved(struct gf_worker *worker, uint64_t passed)
{
    char text[96];

    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/schedstat", worker->pid) <= 0)
        return false;
    const char *second = strchr(text, ' ');
    const uint64_t delay = second ? gf_procfs_number(second + 1) : 0;
    const bool starved =
        worker->seen && delay > worker->delay_ns && 2 * (delay - worker->delay_ns) > passed;
    worker->delay_ns = delay;
    worker->seen = true;
    return starved;
}

/*
 * Returns the state of a child that waits for a descriptor. A child that reads a pipe waits for
 * work; reading a file or the network is part of its work.
 */
static enum gf_worker_state state_of_descriptor(pid_t pid, int fd)
{
    char path[48], link[64];

    gf_fmt(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    const ssize_t length = readlink(path, link, sizeof(link) - 1);
    if (length <= 0)
        return gf_worker_busy;
    link[length] = '\0';
    switch (gf_feeder_by_link(link)) {
    case gf_host_network:
    case gf_host_file:
        return gf_worker_storage;
    case gf_host_data:
        return gf_worker_idle;
    default:
        return gf_worker_busy;
    }
}

/*
 * Returns the state that follows from the child's system call. Sets *ret_waits if the child waits,
 * and the system call does not show what it waits for. If the kernel refuses a reading, no further
 * reading is made, because the audit system may log each refusal.
 */
static enum gf_worker_state state_of_call(struct gf_workers *workers, pid_t pid, bool *ret_waits)
{
    struct gf_wait wait;
    char text[160];
    const int length = gf_procfs_read(text, sizeof(text), "", "proc/%d/syscall", pid);

    workers->refused |= length == -EPERM || length == -EACCES;
    if (length <= 0)
        return gf_worker_idle; /* the child has ended, or may not be read */
    gf_feeder_by_syscall(text, &wait);
    *ret_waits = wait.cause == gf_host_waiting && wait.fd < 0;
    if (wait.fd >= 0)
        return state_of_descriptor(pid, wait.fd);
    switch (wait.cause) {
    case gf_host_file:
        return gf_worker_storage;
    case gf_host_data: /* the child polls, as queues do */
        return gf_worker_idle;
    default:
        return wait.is_fault ? gf_worker_storage : gf_worker_busy;
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

static void read_worker(struct readings *r, struct gf_worker *worker, uint64_t passed)
{
    const bool starved = was_starved(worker, passed);
    struct gf_python_place place = {0};
    bool waits = false;
    enum gf_worker_state state = state_of_call(r->workers, worker->pid, &waits);

    if (r->workers->refused)
        return;
    /* If the child sleeps, only its Python frames show whether it waits for work. */
    if (gf_python_line_read(worker->pid, find_state(r, worker), &place) ? place.in_queue : waits)
        state = gf_worker_idle;
    if (state == gf_worker_busy && starved)
        state = gf_worker_starved;
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

enum gf_host_cause gf_workers_judge(const unsigned states[GF_WORKER_STATE_COUNT], unsigned cpus)
{
    const unsigned busy = states[gf_worker_busy], storage = states[gf_worker_storage],
                   starved = states[gf_worker_starved];

    if (!busy && !storage && !starved)
        return gf_host_data;
    if (starved >= busy && starved >= storage)
        return gf_host_worker_cpus;
    if (storage >= busy)
        return gf_host_storage;
    return busy + starved >= cpus ? gf_host_transform : gf_host_few_workers;
}

static enum gf_worker_state state_behind(enum gf_host_cause cause)
{
    return cause == gf_host_worker_cpus ? gf_worker_starved
           : cause == gf_host_storage   ? gf_worker_storage
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
