/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/journal.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "host/container.h"
#include "host/launch.h"
#include "observe/path.h"
#include "observe/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* 100 lines a second for long, 500 at once; 64 MiB for a tree of processes. */
#define INTERVAL_NS UINT64_C(10000000)
#define BURST_NS (500 * INTERVAL_NS)
#define SIZE_MOST (UINT64_C(64) << 20)
#define LATE_NS UINT64_C(100000000)
#define STUCK_NS UINT64_C(10000000000)
#define SHARED_LINES 64

enum { line_free, line_busy, line_ready, line_taken };

/* In memory that a tree of processes shares, or in this process's own. */
struct ring {
    _Alignas(16) pid_t writer; /* the thread of ours; 0: none */
    pid_t writer_thread;
    uint64_t number;
    uint64_t due_ns;             /* the rate: when the next line would be in time */
    uint64_t written;            /* bytes */
    uint64_t left_out, told;     /* lines, for their number, size or for want of room */
    uint64_t failed;             /* writes */
    bool torn;                   /* the last line was cut: a new one begins with its end */
    unsigned count;
    struct gf_line *line; /* at the same address in every process of the tree */
};

static struct gf_line own_lines[4];
static struct ring own = {.count = GF_ARRAY_LEN(own_lines), .line = own_lines};

static struct ring *ring = &own;
static char path[PATH_MAX];
static const char *pattern;
static const char *version;
static char *const *environment;
static struct gf_rank rank;
static pid_t pid;     /* whose path and header it is */
static bool headed;
static bool open_;
static bool warned;
static uint64_t stops[8]; /* when this process went on after it had been stopped */
static unsigned stop_count;

static void expand(void)
{
    const int error = gf_path_expand(pattern, pid, rank.rank, path, sizeof(path));
    if (error)
        gf_warn("GPUFEED_LOG=%.80s...: the path is too long; no events are logged", pattern);
    __atomic_store_n(&open_, error == 0, __ATOMIC_RELEASE);
}

void gf_journal_open(const char *pattern_, char *const *envp, const char *version_)
{
    if (!*pattern_ || pattern)
        return;
    pattern = pattern_;
    version = version_;
    environment = envp;
    pid = getpid();
    gf_launch_rank(envp, &rank);
    expand();
}

bool gf_journal_wanted(void)
{
    return __atomic_load_n(&open_, __ATOMIC_ACQUIRE);
}

/* A child, by whatever call it was made, has a header of its own, and own slots that nobody uses. */
static void notice_fork(void)
{
    pid_t before = __atomic_load_n(&pid, __ATOMIC_RELAXED);
    const pid_t now = getpid();

    if (gf_likely(before == now) || !__atomic_compare_exchange_n(&pid, &before, now, false,
                                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&headed, false, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < own.count; i++)
        own.line[i].state = line_free;
    own.writer = 0;
    stop_count = 0;
    expand();
}

static void leave_out(void)
{
    __atomic_fetch_add(&ring->left_out, 1, __ATOMIC_RELAXED);
}

static bool is_in_time(uint64_t now)
{
    uint64_t due = __atomic_load_n(&ring->due_ns, __ATOMIC_RELAXED), next;

    if (__atomic_load_n(&ring->written, __ATOMIC_RELAXED) > SIZE_MOST)
        return false;
    do {
        if (due > now + BURST_NS)
            return false;
        next = gf_max(due, now) + INTERVAL_NS;
    } while (!__atomic_compare_exchange_n(&ring->due_ns, &due, next, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

static bool claim(struct gf_line *line, unsigned from, uint64_t now)
{
    return __atomic_load_n(&line->state, __ATOMIC_RELAXED) == from &&
           (from == line_free ||
            now - __atomic_load_n(&line->made_ns, __ATOMIC_RELAXED) > STUCK_NS) &&
           __atomic_compare_exchange_n(&line->state, &from, line_busy, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* A free one, or one whose process was killed while it wrote. */
static struct gf_line *find_line(uint64_t now)
{
    for (unsigned i = 0; i < ring->count; i++)
        if (claim(&ring->line[i], line_free, now))
            return &ring->line[i];
    for (unsigned i = 0; i < ring->count; i++)
        if (claim(&ring->line[i], line_busy, now) || claim(&ring->line[i], line_taken, now)) {
            leave_out();
            return &ring->line[i];
        }
    return NULL;
}

static struct gf_line *begin(const char *event, uint64_t now)
{
    struct timespec wall;
    struct gf_line *line = find_line(now);

    if (!line)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &wall);
    line->made_ns = now;
    line->pid = pid;
    line->found = false;
    line->json = (struct gf_json){.buf = line->text, .size = sizeof(line->text)};
    gf_json_begin(&line->json, NULL, '{');
    gf_json_text(&line->json, "event", event);
    gf_json_micro(&line->json, "time", (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000);
    gf_json_micro(&line->json, "mono", now / 1000);
    gf_json_int(&line->json, "pid", pid);
    gf_json_int(&line->json, "tid", (pid_t)syscall(SYS_gettid));
    return line;
}

const char *gf_journal_program(void)
{
    static char program[512];
    char read[sizeof(program)];

    if (!*program) {
        const ssize_t length =
            syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", read, sizeof(read) - 1);
        memcpy(program, read, (size_t)gf_max(length, 0)); /* whoever does it: the same */
    }
    return program;
}

static void put_job(struct gf_json *json)
{
    static const char *const names[] = {
        "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "TORCHELASTIC_RUN_ID",
        "OMPI_MCA_ess_base_jobid", "KUBERNETES_POD_UID", "POD_NAME",
    };
    gf_json_begin(json, "job", '{');
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        const char *value = gf_launch_variable(environment, names[i]);
        if (value && strlen(value) < 256)
            gf_json_text(json, names[i], value);
    }
    gf_json_end(json, '}');
}

/* The first line of each process. */
static void put_header(uint64_t now)
{
    struct utsname host;
    char container[GF_CONTAINER_ID];
    struct gf_line *line = begin("process", now);

    if (!line)
        return;
    struct gf_json *json = &line->json;
    gf_json_int(json, "schema", GF_JOURNAL_SCHEMA);
    gf_json_text(json, "version", version);
    gf_json_text(json, "program", gf_journal_program());
    gf_json_int(json, "ppid", getppid());
    gf_json_int(json, "rank", rank.rank);
    gf_json_int(json, "local_rank", rank.local_rank);
    gf_json_text(json, "host", uname(&host) == 0 ? host.nodename : NULL);
    gf_json_text(json, "container", gf_container_id(container) ? container : NULL);
    put_job(json);
    gf_json_size(json, "stall_us", gf_slow_threshold() / 1000);
    gf_journal_end(line);
}

struct gf_line *gf_journal_begin(const char *event)
{
    const int error = errno;
    const uint64_t now = gf_now_ns();
    struct gf_line *line = NULL;

    if (!pattern)
        return NULL;
    notice_fork();
    if (gf_journal_wanted()) {
        if (!__atomic_test_and_set(&headed, __ATOMIC_RELAXED))
            put_header(now);
        if (is_in_time(now))
            line = begin(event, now);
        if (!line)
            leave_out();
    }
    errno = error;
    return line;
}

/* What the thread of ours knows of stops: of its own process's, not of its children's. */
static void settle(struct gf_line *line)
{
    struct gf_finding *finding = &line->finding;

    if (!finding->stopped || line->pid != pid || ring->writer_thread != syscall(SYS_gettid))
        return;
    finding->cause = finding->otherwise;
    for (unsigned i = 0; i < GF_ARRAY_LEN(stops); i++)
        if (stops[i] > line->start_ns && stops[i] < line->end_ns + 5000000) {
            finding->cause = gf_cause_paused;
            gf_fmt(finding->text, sizeof(finding->text), "the process was stopped and went on");
        }
}

static size_t finish(struct gf_line *line, char *tail, size_t size)
{
    const struct gf_finding *finding = &line->finding;

    if (!line->found)
        return (size_t)gf_fmt(tail, size, "}\n");
    settle(line);
    return (size_t)gf_fmt(tail, size, ",\"cause\":\"%s\",\"evidence\":\"%s\"}\n",
                          gf_cause_name(finding->cause), finding->text);
}

static int append(const char *to, const struct gf_line *line, size_t length)
{
    const bool torn = __atomic_exchange_n(&ring->torn, false, __ATOMIC_RELAXED);
    return gf_raw_append(to, "\n", torn, line->text, length);
}

/* A child's line, written by its parent's thread: the pattern may hold its number. */
static GF_COLD int append_elsewhere(const struct gf_line *line, size_t length)
{
    char other[PATH_MAX];
    const int error = gf_path_expand(pattern, line->pid, rank.rank, other, sizeof(other));
    return error ? error : append(other, line, length);
}

static void write_line(struct gf_line *line)
{
    char tail[256];
    const size_t length = finish(line, tail, sizeof(tail));

    memcpy(line->text + line->json.at, tail, length);
    const size_t whole = line->json.at + length;
    const int error =
        line->pid == pid ? append(path, line, whole) : append_elsewhere(line, whole);
    __atomic_fetch_add(&ring->written, whole, __ATOMIC_RELAXED);
    if (!error)
        return;
    if (error == -EIO)
        __atomic_store_n(&ring->torn, true, __ATOMIC_RELAXED);
    __atomic_fetch_add(&ring->failed, 1, __ATOMIC_RELAXED);
    leave_out();
    if (!__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED))
        gf_warn("GPUFEED_LOG: cannot append to %s: %s; lines are lost", path,
                strerrordesc_np(-error));
}

static struct gf_line *oldest(void)
{
    struct gf_line *ret = NULL;

    for (unsigned i = 0; i < ring->count; i++)
        if (__atomic_load_n(&ring->line[i].state, __ATOMIC_ACQUIRE) == line_ready &&
            (!ret || ring->line[i].number < ret->number))
            ret = &ring->line[i];
    return ret;
}

void gf_journal_drain(void)
{
    const int error = errno;
    struct gf_line *line;

    while ((line = oldest())) {
        unsigned ready = line_ready;
        if (!__atomic_compare_exchange_n(&line->state, &ready, line_taken, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        write_line(line);
        __atomic_store_n(&line->state, line_free, __ATOMIC_RELEASE);
    }
    errno = error;
}

/*
 * Whether a thread of ours will write what is ready. A process that stopped or lost it, as a child
 * whose parent is gone, does not wait for it.
 */
static bool is_served(uint64_t now)
{
    const pid_t process = __atomic_load_n(&ring->writer, __ATOMIC_ACQUIRE);
    const struct gf_line *line;

    if (!process || syscall(SYS_tgkill, process, ring->writer_thread, SIGURG) != 0)
        return false;
    line = oldest();
    return !line || now < line->made_ns + LATE_NS;
}

void gf_journal_end(struct gf_line *line)
{
    const int error = errno;
    const uint64_t left_out = __atomic_load_n(&ring->left_out, __ATOMIC_RELAXED);
    const uint64_t told = __atomic_exchange_n(&ring->told, left_out, __ATOMIC_RELAXED);

    if (left_out > told)
        gf_json_size(&line->json, "left_out", left_out - told);
    /* Room for the finding and the end. */
    if (line->json.at + 256 > line->json.size) {
        leave_out();
        __atomic_store_n(&line->state, line_free, __ATOMIC_RELEASE);
    } else {
        line->number = __atomic_fetch_add(&ring->number, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&line->state, line_ready, __ATOMIC_RELEASE);
        if (!is_served(line->made_ns))
            gf_journal_drain();
    }
    errno = error;
}

void gf_journal_event(const char *event, const char *fields)
{
    struct gf_line *line = gf_journal_begin(event);

    if (!line)
        return;
    gf_json_members(&line->json, fields);
    gf_journal_end(line);
}

void gf_journal_count(struct gf_journal_count *ret)
{
    ret->lines = __atomic_load_n(&ring->number, __ATOMIC_RELAXED);
    ret->left_out = __atomic_load_n(&ring->left_out, __ATOMIC_RELAXED);
}

void gf_journal_share(void)
{
    const size_t size = sizeof(struct ring) + SHARED_LINES * sizeof(struct gf_line);
    struct ring *shared;

    if (!gf_journal_wanted() || ring != &own)
        return;
    /* By number, as all in here: another preload's mmap may allocate. */
    shared = (struct ring *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0L);
    if (shared == MAP_FAILED)
        return;
    shared->count = SHARED_LINES;
    shared->line = (struct gf_line *)(shared + 1);
    shared->written = ring->written;
    shared->number = ring->number;
    shared->left_out = ring->left_out;
    shared->told = ring->told;
    __atomic_store_n(&ring, shared, __ATOMIC_RELEASE);
}

/*
 * A wait that a stop interrupts, with all signals blocked: EINTR says that the process was stopped
 * (or frozen) and went on just now. Who has a line sends SIGURG, which nobody minds if we are gone.
 */
void gf_journal_serve(void)
{
    sigset_t wanted;

    if (ring == &own)
        return;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGURG);
    ring->writer_thread = (pid_t)syscall(SYS_gettid);
    __atomic_store_n(&ring->writer, getpid(), __ATOMIC_RELEASE);
    for (;;) {
        gf_journal_drain();
        if (syscall(SYS_rt_sigtimedwait, &wanted, NULL, NULL, _NSIG / 8) < 0 && errno == EINTR)
            stops[stop_count++ % GF_ARRAY_LEN(stops)] = gf_now_ns();
    }
}
