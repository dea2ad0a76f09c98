/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process opens its log only once, so each test continues where the one before ended: without a
 * writer thread, with one, with children.
 */
#include "unit.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "preload/trace/journal.h"
#include "../hardening/sandbox.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define EACH 40

/* Replaces the heap's function, which is not linked here. */
uint64_t gf_slowpath_threshold(void)
{
    return 1000000;
}

static char folder[] = "/tmp/gpufeed-test-XXXXXX";
static char *environment[] = {"RANK=3", NULL};

static void path_of(pid_t pid, char ret[64])
{
    gf_fmt(ret, 64, "%s/%d.log", folder, pid);
}

/* Whole lines of this event in a process's log; each begins and ends as it should. */
static unsigned lines_of(pid_t pid, const char *event, uint64_t *ret_dropped)
{
    char path[64], begin[64], line[16384];
    unsigned count = 0;

    path_of(pid, path);
    FILE *file = fopen(path, "r");
    gf_fmt(begin, sizeof(begin), "{\"event\":\"%s\",\"time\":", event);
    while (file && fgets(line, sizeof(line), file)) {
        const char *dropped = strstr(line, "\"dropped\":");
        if (!strchr(line, '\n'))
            break; /* the writer is still writing this line */
        assert_int_equal(strncmp(line, "{\"event\":\"", 10), 0);
        assert_string_equal(line + strlen(line) - 2, "}\n");
        assert_null(strstr(line + 1, "{\"event\""));
        count += strncmp(line, begin, strlen(begin)) == 0;
        if (dropped && ret_dropped)
            *ret_dropped += strtoull(dropped + strlen("\"dropped\":"), NULL, 10);
    }
    if (file)
        fclose(file);
    return count;
}

static void *say(void *event)
{
    for (unsigned i = 0; i < EACH; i++) {
        struct gf_line *line = gf_journal_begin(event);
        if (!line)
            continue;
        gf_json_size(&line->json, "i", i);
        gf_journal_end(line);
    }
    return NULL;
}

static void *serve(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    gf_journal_serve();
    return unused;
}

/* A seccomp filter refuses the thread's wait. */
static void *serve_without_waits(void *unused)
{
    static const unsigned wait[] = {SYS_rt_sigtimedwait};
    sandbox_filter(wait, 1, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
    return serve(unused);
}

static void test_many_threads(void **state)
{
    pthread_t thread[THREADS], ours;
    static char pattern[64]; /* the journal keeps the pointer */
    uint64_t told = 0;
    struct gf_journal_count count;

    (void)state;
    assert_non_null(mkdtemp(folder));
    gf_fmt(pattern, sizeof(pattern), "%s/%%p.log", folder);
    assert_null(gf_journal_begin("too_early"));
    gf_journal_open(pattern, environment, "1");
    assert_true(gf_journal_wanted());
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, say, "test"), 0);
    gf_journal_share(); /* while the threads log */
    assert_int_equal(pthread_create(&ours, NULL, serve, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    /*
     * Waits until the writer thread has freed the slots. On a busy machine, the next line would
     * find no free slot.
     */
    gf_journal_count(&count);
    for (unsigned i = 0; i < 10000 && lines_of(getpid(), "test", NULL) + 1 + THREADS < count.lines;
         i++)
        usleep(1000);
    gf_journal_event("last", "{\"text\":\"x\"}");
    for (unsigned i = 0; i < 5000 && !lines_of(getpid(), "last", NULL); i++)
        usleep(1000);
    const unsigned lines = lines_of(getpid(), "test", &told);
    assert_int_equal(lines_of(getpid(), "process", NULL), 1);
    assert_int_equal(lines_of(getpid(), "last", NULL), 1);
    gf_journal_count(&count);
    /* The old slots count a line that was begun before the slots were shared. */
    assert_in_range(count.lines, lines + 2 - THREADS, lines + 2);
    assert_in_range(lines + count.dropped, THREADS * EACH - THREADS, THREADS * EACH);
    assert_true(told <= count.dropped);
}

/*
 * A child's line is in the child's own file, although the child has ended and a thread of the
 * parent wrote the line.
 */
static void test_children(void **state)
{
    pid_t child[4];
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            gf_journal_event("child", "{\"text\":\"x\"}");
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        waitpid(child[i], NULL, 0);
        /*
         * On a busy machine, the parent's thread may write one of the two lines, and the child the
         * other, because the child never waits.
         */
        for (unsigned k = 0; k < 5000 && (!lines_of(child[i], "child", NULL) ||
                                          !lines_of(child[i], "process", NULL));
             k++)
            usleep(1000);
        assert_int_equal(lines_of(child[i], "process", NULL), 1);
        assert_int_equal(lines_of(child[i], "child", NULL), 1);
    }
}

/*
 * gf_journal_before_exit writes all complete lines. From then on each line is written at once, and
 * a child writes its own lines.
 */
static void test_finish(void **state)
{
    unsigned before;
    (void)state;
    gf_journal_event("before_the_end", "{}");
    gf_journal_before_exit(NULL); /* this waits for the writer thread only for a limited time */
    for (unsigned i = 0; i < 5000 && !lines_of(getpid(), "before_the_end", NULL); i++)
        usleep(1000);
    assert_int_equal(lines_of(getpid(), "before_the_end", NULL), 1);
    for (unsigned i = 1; i <= 3; i++) {
        gf_journal_event("at_the_end", "{}");
        assert_int_equal(lines_of(getpid(), "at_the_end", NULL), i);
    }
    before = lines_of(getpid(), "process", NULL);
    gf_journal_before_exit(NULL);
    gf_journal_finish();
    assert_int_equal(lines_of(getpid(), "process", NULL), before);
    const pid_t child = fork();
    if (child == 0) {
        gf_journal_event("child", "{}");
        _exit(lines_of(getpid(), "child", NULL) == 1 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool full;
static _Atomic uint64_t
    written; /* bytes that count against the size limit, when the last line was begun */

/* Linked with --wrap: 64 MiB of lines take minutes. */
bool __wrap_gf_line_slots_full(const struct gf_line_slots *slots);
bool __wrap_gf_line_slots_full(const struct gf_line_slots *slots)
{
    gf_store_relaxed(&written, __atomic_load_n(&slots->sums->written, __ATOMIC_RELAXED));
    return full;
}

/* Lines that a full disk refuses count as dropped, not as written. */
static void test_failed_writes(void **state)
{
    static char away[sizeof(folder) + 1];
    struct gf_journal_count before, after;
    uint64_t told = 0;

    (void)state;
    gf_fmt(away, sizeof(away), "%s-", folder);
    gf_journal_event("before", "{}");
    assert_int_equal(rename(folder, away), 0);
    gf_journal_count(&before);
    gf_journal_event("lost", "{}");
    const uint64_t count = gf_load_relaxed(&written);
    for (unsigned i = 0; i < 9; i++)
        gf_journal_event("lost", "{}");
    gf_journal_count(&after);
    assert_int_equal(rename(away, folder), 0);
    gf_journal_event("after", "{}");
    assert_true(count > 0);
    assert_int_equal(gf_load_relaxed(&written), count);
    assert_int_equal(after.dropped - before.dropped, 10);
    assert_int_equal(lines_of(getpid(), "lost", NULL), 0);
    assert_int_equal(lines_of(getpid(), "after", &told), 1);
    assert_true(told >= 10);
}

/* Only children that log an event write a header line. */
static void test_rate(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        gf_journal_event("flood", "{}");
    for (unsigned i = 0; i < 8; i++) {
        const pid_t child = fork();
        if (child == 0) {
            gf_journal_event("child", "{}");
            _exit(0);
        }
        waitpid(child, NULL, 0);
        gf_journal_finish();
        for (unsigned k = 0;
             k < 2000 && lines_of(child, "process", NULL) > lines_of(child, "child", NULL); k++)
            usleep(1000);
        assert_int_equal(lines_of(child, "process", NULL), lines_of(child, "child", NULL));
    }
}

/* After the last line, events are only counted. */
static void test_last_line(void **state)
{
    struct gf_journal_count before, after;
    unsigned tries = 0;
    (void)state;
    gf_journal_finish();
    full = true;
    gf_journal_count(&before);
    for (; tries < 10 || (tries < 2000 && !lines_of(getpid(), "full", NULL)); tries++) {
        assert_null(gf_journal_begin("late"));
        usleep(10000); /* after the flood, the rate limit permits a line only some time later */
    }
    gf_journal_count(&after);
    full = false;
    assert_int_equal(after.dropped - before.dropped, tries);
    assert_int_equal(lines_of(getpid(), "full", NULL), 1);
    assert_int_equal(lines_of(getpid(), "late", NULL), 0);
}

static int clear(void **state)
{
    char command[64];
    (void)state;
    gf_fmt(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/* The writer thread does not try again without end. The other threads then write their lines. */
static void test_a_writer_that_may_not_wait_ends(void **state)
{
    struct timespec until;
    pthread_t ours;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip_because("the writer thread of the first test never ends, and a process has only one");
#endif
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    assert_int_equal(pthread_create(&ours, NULL, serve_without_waits, NULL), 0);
    assert_int_equal(pthread_timedjoin_np(ours, NULL, &until), 0);
    gf_journal_event("without_writer", "{}");
    assert_int_equal(lines_of(getpid(), "without_writer", NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_a_writer_that_may_not_wait_ends),
        cmocka_unit_test(test_failed_writes),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_last_line),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
