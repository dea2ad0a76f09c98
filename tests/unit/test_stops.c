/* SPDX-License-Identifier: Apache-2.0 */
/* Stops, as a thread that does nothing but wait can tell them. */
#include "unit.h"

#include "base/clock.h"
#include "observe/stops.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static void test_judge(void **state)
{
    (void)state;
    /* It went on at 100 ms at the earliest, and was seen 20 ms later. */
    const struct gf_stop_span sure = {100 * MS, 120 * MS, true}, unsure = {100 * MS, 120 * MS, false};
    static const struct {
        uint64_t start, end;
        enum gf_stop sure;
    } rows[] = {
        {50, 101, gf_stop_met},   {50, 300, gf_stop_met},     {50, 90, gf_stop_none},
        {105, 118, gf_stop_maybe}, {105, 300, gf_stop_maybe}, {121, 300, gf_stop_none},
    };
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        const uint64_t start = rows[i].start * MS, end = rows[i].end * MS;
        assert_int_equal(gf_stop_judge(&sure, start, end), rows[i].sure);
        assert_int_equal(gf_stop_judge(&unsure, start, end),
                         rows[i].sure == gf_stop_met ? gf_stop_maybe : rows[i].sure);
    }
}

/* Shared with the child that is stopped. */
static struct {
    volatile int turn, went_on;
} *shared;

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

/* Neither of the two gives its CPU away. */
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
    gf_stops_look();

    /* Outside of a wait. */
    uint64_t start = gf_now_ns();
    raise(SIGSTOP);
    gf_stops_look();
    CHECK(gf_stops_in(start, gf_now_ns()) == gf_stop_maybe);

    /* In it. Who began later was not stopped. */
    gf_stops_forget();
    start = gf_now_ns();
    shared->turn = 1;
    gf_stops_wait(&urgent);
    CHECK(gf_stops_in(start, gf_now_ns()) == gf_stop_met);
    CHECK(gf_stops_in(gf_now_ns(), gf_now_ns() + 5 * MS) == gf_stop_none);

    /* Woken by a line and stopped in one: a stop may be anywhere, but is never overlooked. */
    for (int turn = 2; turn < 2 + races; turn++) {
        gf_stops_forget();
        start = gf_now_ns();
        shared->turn = turn;
        gf_stops_wait(&urgent);
        wait_for_turn(turn);
        gf_stops_look();
        CHECK(gf_stops_in(start, gf_now_ns()) != gf_stop_none);
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
            break; /* its exit code says at which line */
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
