/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/journal.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "host/launch.h"
#include "observe/header.h"
#include "observe/path.h"
#include "observe/raw.h"
#include "observe/stops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LATE_NS UINT64_C(100000000)
#define SHARED_LINES 64
#define FINISH_MS 100
#define YIELD_MS 20 /* of these */
#define TAIL 256 /* what may be said of a line when it is written */

static struct gf_line own_lines[4];
static struct gf_slots own = {.count = GF_ARRAY_LEN(own_lines), .line = own_lines};

static struct gf_slots *current = &own; /* or shared ones */
static char path[PATH_MAX];
static const char *pattern;
static const char *version;
static char *const *environment;
static struct gf_rank rank;
static pid_t pid; /* whose path and header it is; less than 0: they are being made its */
static bool headed;
static bool open_;
static bool warned;

static void expand(pid_t of)
{
    const int error = gf_path_expand(pattern, of, rank.rank, path, sizeof(path));
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
    expand(pid);
}

bool gf_journal_wanted(void)
{
    return __atomic_load_n(&open_, __ATOMIC_ACQUIRE);
}

static struct gf_slots *slots(void)
{
    return __atomic_load_n(&current, __ATOMIC_ACQUIRE);
}

/*
 * A child, by whatever call it was made, has a header of its own, and own slots that nobody uses. False
 * while another thread of it is here for the first time: nobody waits.
 */
static bool notice_fork(void)
{
    pid_t before = __atomic_load_n(&pid, __ATOMIC_ACQUIRE);
    const pid_t now = getpid();

    if (gf_likely(before == now))
        return true;
    if (before == -now || !__atomic_compare_exchange_n(&pid, &before, -now, false, __ATOMIC_ACQUIRE,
                                                       __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&headed, false, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < own.count; i++)
        own.line[i].mark = 0;
    own.writer = 0;
    gf_stops_forget();
    expand(now);
    __atomic_store_n(&pid, now, __ATOMIC_RELEASE);
    return true;
}

static struct gf_line *begin(const char *event, uint64_t now)
{
    struct timespec wall;
    struct gf_line *line = gf_slots_claim(slots(), now);

    if (!line)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &wall);
    line->made_ns = now;
    line->pid = getpid();
    line->header = line->found = false;
    line->json = (struct gf_json){.buf = line->text, .size = sizeof(line->text)};
    gf_json_begin(&line->json, NULL, '{');
    gf_json_text(&line->json, "event", event);
    gf_json_micro(&line->json, "time",
                  (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000);
    gf_json_micro(&line->json, "mono", now / 1000);
    gf_json_int(&line->json, "pid", line->pid);
    gf_json_int(&line->json, "tid", (pid_t)syscall(SYS_gettid));
    return line;
}

/* The first line of each process. */
static void put_header(uint64_t now)
{
    struct gf_line *line = begin("process", now);

    if (!line) {
        __atomic_store_n(&headed, false, __ATOMIC_RELAXED); /* before the next one, then */
        return;
    }
    line->header = true;
    gf_header_put(&line->json, environment, &rank, version);
    gf_journal_end(line);
}

struct gf_line *gf_journal_begin(const char *event)
{
    const int error = errno;
    const uint64_t now = gf_now_ns();
    struct gf_line *line = NULL;

    if (!pattern)
        return NULL;
    const bool noticed = notice_fork();
    if (gf_journal_wanted()) {
        if (noticed && gf_slots_in_time(slots(), now)) {
            if (!__atomic_test_and_set(&headed, __ATOMIC_RELAXED))
                put_header(now);
            line = begin(event, now);
        }
        if (!line)
            gf_slots_leave_out(slots());
    }
    errno = error;
    return line;
}

/* What the thread of ours knows of stops: of its own process's, not of its children's. */
static void settle(struct gf_line *line)
{
    struct gf_finding *finding = &line->finding;

    if (!finding->stopped || line->pid != getpid() ||
        slots()->writer_thread != syscall(SYS_gettid))
        return;
    gf_stops_look(); /* who was stopped may have written this line before we came to wait */
    switch (gf_stops_in(line->start_ns, line->end_ns)) {
    case gf_stop_none:
        finding->cause = finding->otherwise;
        break;
    case gf_stop_met:
        finding->cause = gf_cause_paused;
        gf_fmt(finding->text, sizeof(finding->text), "the process was stopped and went on");
        break;
    case gf_stop_maybe: /* what was found without us stands */
        break;
    }
}

/* What a line ends with: known only when it is written. */
static size_t finish(struct gf_line *line, uint64_t left_out, char tail[TAIL])
{
    const struct gf_finding *finding = &line->finding;
    size_t at = 0;

    if (left_out)
        at += (size_t)gf_fmt(tail, TAIL, ",\"left_out\":%llu", (unsigned long long)left_out);
    if (line->found) {
        settle(line);
        at += (size_t)gf_fmt(tail + at, TAIL - at, ",\"cause\":\"%s\",\"evidence\":\"%s\"",
                             gf_cause_name(finding->cause), finding->text);
    }
    return at + (size_t)gf_fmt(tail + at, TAIL - at, "}\n");
}

/* A child's line, written by its parent's thread; apart, for the room that a path takes on the stack. */
static GF_COLD int append_elsewhere(const struct gf_line *line, size_t length, bool torn)
{
    char other[PATH_MAX];
    const int error = gf_path_expand(pattern, line->pid, rank.rank, other, sizeof(other));
    return error ? error : gf_raw_append(other, "\n", torn, line->text, length);
}

static int append(const struct gf_line *line, size_t length)
{
    const bool torn = __atomic_exchange_n(&slots()->torn, false, __ATOMIC_RELAXED);
    const int error = line->pid == __atomic_load_n(&pid, __ATOMIC_ACQUIRE)
                          ? gf_raw_append(path, "\n", torn, line->text, length)
                          : append_elsewhere(line, length, torn);

    if (error == -EIO || (error && torn))
        __atomic_store_n(&slots()->torn, true, __ATOMIC_RELAXED);
    return error;
}

static void note_failure(const struct gf_line *line, int error)
{
    if (line->header && line->pid == getpid())
        __atomic_store_n(&headed, false, __ATOMIC_RELAXED);
    gf_slots_leave_out(slots());
    /* Before cuInit nothing is said: the word stays for later. */
    if (gf_log_wants(GF_LOG_WARN) && !__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED))
        gf_warn("GPUFEED_LOG: cannot append to %s: %s; lines are lost", path,
                strerrordesc_np(-error));
}

static void write_line(struct gf_line *line)
{
    char tail[TAIL];
    const uint64_t left_out = gf_slots_tell(slots());
    const size_t length = finish(line, left_out, tail), at = line->json.at;
    int error = -ENOSPC;

    if (at + length <= sizeof(line->text)) {
        memcpy(line->text + at, tail, length);
        error = append(line, at + length);
        __atomic_fetch_add(&slots()->written, at + length, __ATOMIC_RELAXED);
    }
    if (error) {
        gf_slots_untell(slots(), left_out);
        note_failure(line, error);
    }
}

static void drain(struct gf_slots *from)
{
    struct gf_line *line;
    uint64_t mark;

    while ((line = gf_slots_take(from, gf_now_ns(), &mark))) {
        write_line(line);
        gf_slots_written(line, mark);
    }
}

void gf_journal_drain(void)
{
    const int error = errno;

    drain(slots());
    if (slots() != &own)
        drain(&own); /* begun by another thread before they were shared */
    errno = error;
}

/*
 * Whether a thread of ours will write what is ready. A process that stopped or lost it, as a child
 * whose parent is gone, does not wait for it.
 */
static bool is_served(uint64_t now)
{
    const struct gf_slots *in = slots();
    /* Behind the line's being ready: gf_journal_finish looks at both the other way round. */
    const pid_t process = __atomic_load_n(&in->writer, __ATOMIC_SEQ_CST);

    return process && syscall(SYS_tgkill, process, in->writer_thread, SIGURG) == 0 &&
           !gf_slots_neglected(in, now, LATE_NS);
}

void gf_journal_end(struct gf_line *line)
{
    const int error = errno;
    const uint64_t made_ns = line->made_ns; /* once it is ready it may be somebody else's */

    if (line->json.at + TAIL > line->json.size) {
        gf_slots_leave_out(slots());
        gf_slots_drop(line);
    } else if (!gf_slots_ready(slots(), line, made_ns)) {
        gf_slots_leave_out(slots());
    } else if (!is_served(made_ns)) {
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
    ret->lines = __atomic_load_n(&slots()->number, __ATOMIC_RELAXED);
    ret->left_out = __atomic_load_n(&slots()->left_out, __ATOMIC_RELAXED);
}

void gf_journal_share(void)
{
    const size_t size = sizeof(struct gf_slots) + SHARED_LINES * sizeof(struct gf_line);
    struct gf_slots *shared;

    if (!gf_journal_wanted() || slots() != &own)
        return;
    notice_fork();
    /* By number, as all in here: another preload's mmap may allocate. */
    shared = (struct gf_slots *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0L);
    if (shared == MAP_FAILED)
        return;
    shared->count = SHARED_LINES;
    shared->line = (struct gf_line *)(shared + 1);
    shared->number = __atomic_load_n(&own.number, __ATOMIC_RELAXED);
    shared->due_ns = __atomic_load_n(&own.due_ns, __ATOMIC_RELAXED);
    shared->written = __atomic_load_n(&own.written, __ATOMIC_RELAXED);
    shared->left_out = __atomic_load_n(&own.left_out, __ATOMIC_RELAXED);
    shared->told = __atomic_load_n(&own.told, __ATOMIC_RELAXED);
    shared->torn = __atomic_load_n(&own.torn, __ATOMIC_RELAXED);
    __atomic_store_n(&current, shared, __ATOMIC_RELEASE);
}

/* Who has a line sends SIGURG, which nobody minds if we are gone. */
void gf_journal_serve(void)
{
    struct gf_slots *const in = slots();
    sigset_t wanted;

    if (in == &own)
        return;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGURG);
    in->writer_thread = (pid_t)syscall(SYS_gettid);
    __atomic_store_n(&in->writer, getpid(), __ATOMIC_RELEASE);
    for (;;) {
        gf_journal_drain();
        gf_stops_wait(&wanted);
    }
}

/*
 * The thread of ours is given the time to write itself: it knows of stops, and this one may be a signal
 * handler's. If it does not come to it, on a busy machine, this one does; what that has begun to write it
 * ends, unless the disk hangs.
 */
void gf_journal_finish(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct gf_slots *const in = slots();

    if (__atomic_load_n(&in->writer, __ATOMIC_RELAXED) != getpid()) {
        if (!is_served(gf_now_ns()))
            gf_journal_drain();
        return;
    }
    __atomic_store_n(&in->writer, 0, __ATOMIC_SEQ_CST);
    for (unsigned ms = 0; ms < FINISH_MS && gf_slots_unwritten(in); ms++)
        if (ms < YIELD_MS || gf_slots_in_hand(in))
            syscall(SYS_nanosleep, &moment, NULL);
        else
            gf_journal_drain();
}

void gf_journal_leave(void)
{
    if (slots() != &own && __atomic_load_n(&pid, __ATOMIC_ACQUIRE) == getpid())
        gf_journal_finish();
}
