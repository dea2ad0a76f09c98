/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that only waits detects pauses of the process. */
#include "unit.h"

#include "base/clock.h"
#include "preload/trace/pause_detect.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static void test_judge(void **state)
{
    (void)state;
    /* The pause ended at 100 ms at the earliest, and was detected 20 ms later. */
    const struct gf_pause_span sure = {100 * MS, 120 * MS, true},
                               uncertain = {100 * MS, 120 * MS, false};
    static const struct {
        uint64_t start, end;
        enum gf_pause sure;
    } rows[] = {
        {50, 101, gf_pause_certain}, {50, 300, gf_pause_certain}, {50, 90, gf_pause_none},
        {105, 118, gf_pause_maybe},  {105, 300, gf_pause_maybe},  {121, 300, gf_pause_none},
    };
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        const uint64_t start = rows[i].start * MS, end = rows[i].end * MS;
        assert_int_equal(gf_pause_judge(&sure, start, end), rows[i].sure);
        assert_int_equal(gf_pause_judge(&uncertain, start, end),
                         rows[i].sure == gf_pause_certain ? gf_pause_maybe : rows[i].sure);
    }
}

/* Shared with the child that is paused. */
static struct {
    volatile int turn, went_on;
} * shared;

static void stay_stopped(pid_t child, int turn)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    usleep(10000);
    shared->went_on = turn;
    kill(child, SIGCONT);
}

static char state_of(pid_t child)
{
    char path[64], text[256] = "", *at;
    snprintf(path, sizeof(path), "/proc/%d/stat", child);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof(text), file) || !(at = strrchr(text, ')')))
        return '?';
    fclose(file);
    return at[2];
}

/* Spins, because a wait would add a context switch. */
static void wait_for_turn(int turn)
{
    while (shared->went_on < turn)
        ;
}

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            _exit(__LINE__ % 251 + 1);                                                             \
    } while (0)

static _Noreturn void be_stopped(int races)
{
    sigset_t all, urgent;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    gf_pause_check();

    /* A pause outside of a wait may have been in any call. */
    uint64_t start = gf_now_ns();
    raise(SIGSTOP);
    gf_pause_check();
    CHECK(gf_pause_in(start, gf_now_ns()) == gf_pause_maybe);

    /* A pause during a wait is certain. It does not count for a call that began later. */
    gf_pause_reset();
    start = gf_now_ns();
    shared->turn = 1;
    gf_pause_wait(&urgent);
    CHECK(gf_pause_in(start, gf_now_ns()) == gf_pause_certain);
    CHECK(gf_pause_in(gf_now_ns(), gf_now_ns() + 5 * MS) == gf_pause_none);

    /*
     * The parent wakes and stops the process at the same time. The time of the pause is then
     * uncertain, but the pause is never missed.
     */
    for (int turn = 2; turn < 2 + races; turn++) {
        gf_pause_reset();
        start = gf_now_ns();
        shared->turn = turn;
        gf_pause_wait(&urgent);
        wait_for_turn(turn);
        gf_pause_check();
        CHECK(gf_pause_in(start, gf_now_ns()) != gf_pause_none);
    }
    _exit(0);
}

static void test_a_stopped_process(void **state)
{
    enum { RACES = 50 };
    int status = 0;
    (void)state;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    const pid_t child = fork();
    if (child == 0)
        be_stopped(RACES);
    stay_stopped(child, 0);
    for (int turn = 1; turn < 2 + RACES; turn++) {
        char now = '?';
        while (now != 'Z' && (shared->turn < turn || now != 'S')) {
            usleep(100);
            now = state_of(child);
        }
        if (now == 'Z')
            break; /* its exit code is the line of the failed check */
        if (turn > 1)
            kill(child, SIGURG);
        kill(child, SIGSTOP);
        stay_stopped(child, turn);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    munmap(shared, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_a_stopped_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
