/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes a forked child, whose memory is a copy, from a child of vfork, which shares the
 * memory with the parent's running threads. The kernel wipes the mark (one word) in a copy.
 */
#include "preload/trace/journal.h"

#include "base/atomic.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/output_file.h"
#include "os/launch.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "preload/trace/cause.h"
#include "preload/trace/log_file.h"
#include "preload/trace/pause_detect.h"

#include <signal.h>

#define BYTES 4096UL /* the kernel rounds the size up to a page */

static _Atomic unsigned *_Atomic wiped_mark; /* NULL if the kernel cannot wipe pages on fork */

/*
 * Sets the mark. The first call maps it with MADV_WIPEONFORK, which needs Linux 4.14. Keeps errno.
 */
static void gf_fork_mark_set(void)
{
    gf_keep_errno();
    void *page = gf_load_acquire(&wiped_mark) ? NULL : gf_scratch_take(BYTES);

    if (page && syscall(SYS_madvise, page, BYTES, MADV_WIPEONFORK) == 0)
        gf_store_release(&wiped_mark, page);
    else
        gf_scratch_give(page, BYTES);
    _Atomic unsigned *word = gf_load_acquire(&wiped_mark);
    if (word)
        gf_store_release(word, 1);
}

/*
 * Whether this memory was copied by a fork after the mark was set. True if the kernel cannot wipe
 * pages.
 */
static bool gf_fork_mark_copied(void)
{
    const _Atomic unsigned *word = gf_load_acquire(&wiped_mark);

    return !word || gf_load_acquire(word) == 0;
}

#define LATE_NS UINT64_C(100000000)
#define SHARED_LINES 64
#define FINISH_MS 100
#define WRITER_MS 20 /* the first part of FINISH_MS, in which only the writer thread writes */
/* More than gf_line_slots_full permits, because another process may have changed the shared sum. */
#define APPENDED_MOST (UINT64_C(80) << 20)
#define TAIL 256 /* write_line appends at most this many bytes to a line */

static struct gf_line_slot own_slots[4];
static struct gf_line_sums own_sums;
static struct gf_line own_lines[GF_ARRAY_LEN(own_slots)];
static struct gf_line_slots own = {0, &own_sums, own_lines}; /* none before the log is opened */

/* The slots in use: `own`, or slots that children share. */
static struct gf_line_slots *_Atomic current = &own;
static bool opened;
static const char *version;
static gf_launch_value job[GF_LAUNCH_JOB_VARIABLES]; /* of gf_launch_job_variables */
static struct gf_rank rank;
/*
 * Id of the process for which the file path and the header are set; the negated id while a thread
 * sets them.
 */
static _Atomic pid_t owner;
static _Atomic bool has_header;
static _Atomic pid_t exited; /* id of the process that has logged its exit */
static _Atomic int failure;  /* -errno of the last append that failed, or 0 */
static _Atomic bool warned;
static _Atomic uint64_t appended; /* bytes, by this process */

void gf_journal_open(const char *path_pattern, char *const *envp, const char *own_version)
{
    if (!*path_pattern || opened)
        return;
    opened = true;
    for (; own.count < GF_ARRAY_LEN(own_lines); own.count++)
        own_lines[own.count].slot = &own_slots[own.count];
    version = own_version;
    for (size_t i = 0; i < GF_LAUNCH_JOB_VARIABLES; i++) {
        const char *value = gf_launch_variable(envp, gf_launch_job_variables[i]);
        if (value && strlen(value) < sizeof(job[i]))
            gf_fmt(job[i], sizeof(job[i]), "%s", value);
    }
    gf_store_relaxed(&owner, getpid());
    gf_fork_mark_set();
    gf_launch_rank(envp, &rank);
    gf_log_file_open(path_pattern, rank.rank, getpid());
}

bool gf_journal_wanted(void)
{
    return gf_log_file_is_open();
}

static struct gf_line_slots *journal_slots(void)
{
    return gf_load_acquire(&current);
}

/*
 * Whether the process has ended. `owner` may be the id of an ended process: of a child of vfork
 * that opened the log, or of the parent of a child of vfork.
 */
static bool is_gone(pid_t process)
{
    gf_keep_errno();
    return syscall(SYS_kill, process, 0) != 0 && errno == ESRCH;
}

static void reset_copy(void)
{
    for (unsigned i = 0; i < own.count; i++)
        own_slots[i].mark = 0;
    own_sums = (struct gf_line_sums){0};
    gf_pause_reset();
    gf_fork_mark_set();
}

/*
 * Prepares the log in a forked child, whichever system call created the child. The child writes a
 * new header. Private slots are reset, because their holders do not exist in the child. The counts
 * of private slots are reset, because the parent reports its own dropped lines. Slots that are
 * shared with the parent keep their state and limits.
 *
 * Returns false in a child of vfork, which shares the slots with its parent's threads. Returns
 * false, without waiting, while another thread of a forked child prepares the log.
 */
static bool detect_fork(void)
{
    pid_t before = gf_load_acquire(&owner);
    const pid_t now = getpid();

    if (gf_likely(before == now))
        return true;
    if (before == -now)
        return false;
    const bool copied = gf_fork_mark_copied();
    if ((!copied && !is_gone(before < 0 ? -before : before)) ||
        !gf_cas_acquire(&owner, &before, -now))
        return false;
    gf_store_relaxed(&has_header, false);
    if (copied)
        reset_copy();
    gf_log_file_follow(now);
    gf_store_release(&owner, now);
    return true;
}

static struct gf_line *begin_line(const char *event, uint64_t now)
{
    struct gf_line *line = gf_line_slots_claim(journal_slots(), now);

    if (!line)
        return NULL;
    line->made_ns = now;
    line->message = (struct gf_line_message){.pid = getpid()};
    line->json = (struct gf_json){.buf = line->slot->text, .size = sizeof(line->slot->text)};
    gf_json_begin(&line->json, NULL, '{');
    gf_json_text(&line->json, "event", event);
    gf_json_micro(&line->json, "time", gf_clock_ns(CLOCK_REALTIME) / 1000);
    gf_json_micro(&line->json, "mono", now / 1000);
    gf_json_int(&line->json, "pid", line->message.pid);
    gf_json_int(&line->json, "tid", (pid_t)syscall(SYS_gettid));
    return line;
}

/* Logs the event `process`, which is the first line of each process. */
static void put_header(uint64_t now)
{
    struct gf_line *line = begin_line("process", now);

    if (!line) {
        gf_store_relaxed(&has_header, false); /* so that the next event tries again */
        return;
    }
    line->message.header = true;
    gf_log_header_put(&line->json, job, &rank, version);
    gf_journal_end(line);
}

static void begin_header(uint64_t now)
{
    if (!gf_exchange_relaxed(&has_header, true))
        put_header(now);
}

/* Ends the log. Lines that were begun earlier may still follow. */
static void put_last_line(uint64_t now)
{
    unsigned char *const ended = &journal_slots()->sums->ended;
    struct gf_line *line;

    if (__atomic_exchange_n(ended, true, __ATOMIC_RELAXED))
        return;
    begin_header(now);
    if (!(line = begin_line("full", now))) {
        __atomic_store_n(ended, false, __ATOMIC_RELAXED); /* so that the next event tries again */
        return;
    }
    line->message.last = true;
    gf_json_text(&line->json, "text",
                 "the log has reached its maximum size; later events are dropped");
    gf_journal_end(line);
}

struct gf_line *gf_journal_begin(const char *event)
{
    gf_keep_errno();
    const uint64_t now = gf_now_ns();
    struct gf_line *line = NULL;

    if (!opened)
        return NULL;
    const bool ready = detect_fork();
    if (gf_journal_wanted()) {
        const bool within_rate = ready && gf_line_slots_within_rate(journal_slots(), now);
        if (within_rate && gf_line_slots_full(journal_slots())) {
            put_last_line(now);
        } else if (within_rate) {
            begin_header(now);
            line = begin_line(event, now);
        }
        if (!line)
            gf_line_slots_count_dropped(journal_slots());
    }
    return line;
}

/*
 * Decides whether a pause of the process caused the stall. Only the writer thread detects pauses,
 * and it detects no pauses of child processes.
 */
static void settle_finding(struct gf_line_message *line)
{
    struct gf_finding *finding = &line->finding;
    const enum gf_cause counted = finding->cause;

    if (!finding->may_be_pause || line->pid != getpid() ||
        journal_slots()->sums->writer_thread != syscall(SYS_gettid))
        return;
    gf_pause_check(); /* A pause may have ended just now and may not be recorded yet. */
    switch (gf_pause_in(line->start_ns, line->end_ns)) {
    case gf_pause_none:
        finding->cause = finding->without_pause;
        break;
    case gf_pause_certain:
        finding->cause = gf_cause_paused;
        gf_fmt(finding->text, sizeof(finding->text), "the process was paused");
        break;
    case gf_pause_maybe: /* the line keeps the cause that was found before */
        break;
    }
    if (finding->cause != counted)
        gf_stall_count_move(counted, finding->cause, (line->end_ns - line->start_ns) / 1000);
}

/* Formats the end of a line, which is known only when the line is written. */
static size_t format_tail(struct gf_line_message *line, uint64_t dropped, char tail[TAIL])
{
    const struct gf_finding *finding = &line->finding;
    size_t at = 0;

    if (dropped)
        at += (size_t)gf_fmt(tail, TAIL, ",\"dropped\":%lu", dropped);
    if (line->found) {
        settle_finding(line);
        at += (size_t)gf_fmt(tail + at, TAIL - at, ",\"cause\":\"%s\",\"evidence\":\"%s\"",
                             gf_cause_name(finding->cause), finding->text);
    }
    return at + (size_t)gf_fmt(tail + at, TAIL - at, "}\n");
}

/*
 * Appends the line. The first line after a torn one begins with a line feed. If only a part of the
 * line is written, a line feed is appended at once, because the error of that call tells why.
 */
static int append_line(const struct gf_line_message *line, const char *text, size_t length)
{
    unsigned char *const torn = &journal_slots()->sums->torn;
    const bool after_torn = __atomic_exchange_n(torn, 0, __ATOMIC_RELAXED) != 0;
    const size_t whole = after_torn + length;
    ssize_t written = gf_log_file_append(line->pid, after_torn, text, length);

    if (written > 0) {
        __atomic_fetch_add(&journal_slots()->sums->written, written, __ATOMIC_RELAXED);
        gf_add_relaxed(&appended, (uint64_t)written);
    }
    if (written == (ssize_t)whole)
        return 0;
    const bool in_part = written > 0;
    if (in_part)
        written = gf_log_file_append(line->pid, true, "", 0);
    if (written <= 0 && (in_part || after_torn))
        __atomic_store_n(torn, true, __ATOMIC_RELAXED);
    return written < 0 ? (int)written : -ENOSPC;
}

/* Must not be called on the writer thread, because its descriptor table has no standard error. */
static void warn_of_failure(void)
{
    const int error = gf_load_relaxed(&failure);

    /* Before cuInit, the log level allows no message. A failure is then reported later. */
    if (gf_likely(!error) || !gf_log_wants(GF_LOG_WARN) || gf_exchange_relaxed(&warned, true))
        return;
    gf_warn("GPUFEED_LOG: cannot append to %s: %s; lines are lost", gf_log_file_path(),
            gf_output_reason(error));
}

static void handle_failure(const struct gf_line_message *line, int error)
{
    if (line->header && line->pid == getpid())
        gf_store_relaxed(&has_header, false);
    if (line->last)
        __atomic_store_n(&journal_slots()->sums->ended, 0, __ATOMIC_RELAXED);
    gf_line_slots_count_dropped(journal_slots());
    gf_store_relaxed(&failure, error);
    if (journal_slots()->sums->writer_thread != syscall(SYS_gettid))
        warn_of_failure();
}

static void write_line(const struct gf_line *line)
{
    char tail[TAIL];
    struct gf_line_message message;
    const uint64_t dropped = gf_line_slots_report(journal_slots());
    int error = -ENOSPC;

    gf_line_slots_read(line, &message);
    const size_t length = format_tail(&message, dropped, tail), at = message.length;
    if (at + length <= sizeof(line->slot->text) && gf_load_relaxed(&appended) < APPENDED_MOST) {
        memcpy(line->slot->text + at, tail, length);
        error = append_line(&message, line->slot->text, at + length);
    }
    if (error) {
        gf_line_slots_unreport(journal_slots(), dropped);
        handle_failure(&message, error);
    }
}

/*
 * A thread whose line hangs writes the others, too, once it continues. Another process may finish lines as
 * fast as this thread writes them.
 */
static void drain_slots(struct gf_line_slots *from)
{
    struct gf_line *line;
    uint64_t mark;

    for (unsigned left = 2 * SHARED_LINES; left && !gf_line_slots_hang(from, gf_now_ns()) &&
                                           (line = gf_line_slots_take(from, gf_now_ns(), &mark));
         left--) {
        write_line(line);
        gf_line_slots_release(line, mark);
    }
}

void gf_journal_drain(void)
{
    gf_keep_errno();

    drain_slots(journal_slots());
    if (journal_slots() != &own)
        drain_slots(&own); /* lines begun before the slots were shared */
}

/*
 * Whether the writer thread will write the finished lines. False if the writer thread is paused or
 * has ended. It has ended, for example, if this process is a child that has outlived its parent.
 */
static bool is_served(uint64_t now)
{
    const struct gf_line_sums *in = journal_slots()->sums;
    /*
     * A Dekker-style handshake with gf_journal_finish. This thread stores a line, then loads
     * `writer`. gf_journal_finish stores `writer`, then loads the lines.
     */
    const pid_t process = __atomic_load_n(&in->writer, __ATOMIC_SEQ_CST);

    return process && syscall(SYS_tgkill, process, in->writer_thread, SIGURG) == 0 &&
           !gf_line_slots_overdue(journal_slots(), now, LATE_NS);
}

void gf_journal_end(struct gf_line *line)
{
    gf_keep_errno();
    /* Read before gf_line_slots_ready, because after that call another thread may take the slot. */
    const uint64_t made_ns = line->made_ns;

    if (line->json.at + TAIL > line->json.size) {
        gf_line_slots_count_dropped(journal_slots());
        gf_line_slots_discard(line);
    } else if (!gf_line_slots_ready(journal_slots(), line, made_ns)) {
        gf_line_slots_count_dropped(journal_slots());
    } else if (!is_served(made_ns)) {
        gf_journal_drain();
    }
    warn_of_failure();
}

/*
 * The limit of the rate does not apply to this line, because its absence means that the process did
 * not end normally. The limit of the size does.
 */
void gf_journal_put_exit(void)
{
    gf_keep_errno();
    const pid_t now = getpid();
    struct gf_line *line;

    if (gf_load_acquire(&owner) != now || !gf_load_relaxed(&has_header) ||
        gf_line_slots_full(journal_slots()) || gf_exchange_relaxed(&exited, now) == now)
        return;
    if ((line = begin_line("exit", gf_now_ns()))) {
        gf_json_text(&line->json, "text", "the process ended normally");
        gf_journal_end(line);
    }
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
    ret->lines = __atomic_load_n(&journal_slots()->sums->number, __ATOMIC_RELAXED);
    ret->dropped = __atomic_load_n(&journal_slots()->sums->dropped, __ATOMIC_RELAXED);
}

void gf_journal_share(void)
{
    static struct gf_line_slots shared = {.count = SHARED_LINES};

    if (!gf_journal_wanted() || journal_slots() != &own)
        return;
    detect_fork();
    shared.line = gf_scratch_take(SHARED_LINES * sizeof(*shared.line));
    shared.sums =
        gf_scratch_share(sizeof(*shared.sums) + SHARED_LINES * sizeof(struct gf_line_slot));
    if (!shared.line || !shared.sums)
        return;
    for (unsigned i = 0; i < SHARED_LINES; i++)
        shared.line[i].slot = (struct gf_line_slot *)(shared.sums + 1) + i;
    shared.sums->number = __atomic_load_n(&own_sums.number, __ATOMIC_RELAXED);
    shared.sums->due_ns = __atomic_load_n(&own_sums.due_ns, __ATOMIC_RELAXED);
    shared.sums->written = __atomic_load_n(&own_sums.written, __ATOMIC_RELAXED);
    shared.sums->dropped = __atomic_load_n(&own_sums.dropped, __ATOMIC_RELAXED);
    shared.sums->reported = __atomic_load_n(&own_sums.reported, __ATOMIC_RELAXED);
    shared.sums->torn = __atomic_load_n(&own_sums.torn, __ATOMIC_RELAXED);
    gf_store_release(&current, &shared);
}

bool gf_journal_shared(void)
{
    return journal_slots() != &own;
}

/*
 * A thread that finishes a line wakes the writer thread by SIGURG. If the writer thread has ended,
 * its id may by then belong to another thread. That thread ignores SIGURG by default.
 */
void gf_journal_serve(void)
{
    struct gf_line_sums *const in = journal_slots()->sums;
    sigset_t wanted;

    if (in == &own_sums)
        return;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGURG);
    gf_own_table_leave();
    in->writer_thread = (pid_t)syscall(SYS_gettid);
    __atomic_store_n(&in->writer, getpid(), __ATOMIC_RELEASE);
    do
        gf_journal_drain();
    while (gf_pause_wait(&wanted));
    __atomic_store_n(&in->writer, 0, __ATOMIC_SEQ_CST);
    gf_journal_drain(); /* lines that were finished before other threads saw this store */
}

/*
 * During the first WRITER_MS, only the writer thread writes lines, because only that thread detects
 * pauses. After that, the calling thread also writes lines. While the writer thread is writing a
 * line, the calling thread waits. It waits at most FINISH_MS in total, because the disk may hang.
 */
void gf_journal_finish(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct gf_line_slots *const in = journal_slots();

    if (__atomic_load_n(&in->sums->writer, __ATOMIC_RELAXED) != getpid()) {
        if (!is_served(gf_now_ns()))
            gf_journal_drain();
        warn_of_failure();
        return;
    }
    __atomic_store_n(&in->sums->writer, 0, __ATOMIC_SEQ_CST);
    for (unsigned ms = 0; ms < FINISH_MS && gf_line_slots_unwritten(in); ms++)
        if (ms < WRITER_MS || gf_line_slots_writing(in))
            syscall(SYS_nanosleep, &moment, NULL);
        else
            gf_journal_drain();
    warn_of_failure();
}

/*
 * A forked child that has logged nothing has no lines to write. If such a child is sealed
 * (os/permit.h), it must not even call getpid. So the fork mark is checked before getpid is called.
 */
void gf_journal_before_exit(void (*last)(void))
{
    if (journal_slots() == &own || (gf_permit_sealed() && gf_fork_mark_copied()) ||
        gf_load_acquire(&owner) != getpid())
        return;
    if (last)
        last();
    gf_journal_put_exit();
    gf_journal_finish();
}
