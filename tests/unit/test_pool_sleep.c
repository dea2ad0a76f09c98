/* SPDX-License-Identifier: Apache-2.0 */
#include "poolkit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool all_asleep; /* all helpers slept during the last call of naps() */

/*
 * Returns the voluntary switches of a helper, and 0 for other threads. A sanitizer's thread, for
 * example, wakes up by itself.
 */
static unsigned long naps_of(const char *tid)
{
    unsigned long ret = 0;
    bool helps = false, asleep = false;
    char path[300], line[128];
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof(line), status)) {
        helps |= strcmp(line, "Name:\tgpufeed-copy\n") == 0;
        asleep |= strncmp(line, "State:\tS", 8) == 0;
        sscanf(line, "voluntary_ctxt_switches: %lu", &ret);
    }
    if (status)
        fclose(status);
    all_asleep &= asleep || !helps;
    return helps ? ret : 0;
}

/* Returns how many times helpers have gone to sleep. */
static unsigned long naps(void)
{
    unsigned long ret = 0;
    DIR *tasks = opendir("/proc/self/task");
    all_asleep = true;
    for (const struct dirent *task; (task = readdir(tasks));)
        ret += naps_of(task->d_name);
    closedir(tasks);
    return ret;
}

/* Returns naps() after all helpers have stopped spinning. */
static unsigned long naps_in_the_end(void)
{
    unsigned long before = 0, now = naps();
    for (unsigned i = 0; i < 400 && (now != before || !all_asleep); i++, now = naps()) {
        before = now;
        usleep(50000);
    }
    return now;
}

static int held_by[2]; /* a pipe */
static _Atomic bool inside;

static bool hold(struct gf_pieces *job, uint64_t piece)
{
    char word;
    (void)job;
    gf_store_relaxed(&inside, true);
    return piece > 0 || read(held_by[0], &word, 1) == 1;
}

static void max_helpers_limits_wakeups(void **state)
{
    (void)state;
    struct gf_pieces job = {.work = hold, .max_helpers = 1, .total = 20};
    struct gf_pool *pool = pool_of(1005, 4);

    assert_int_equal(pipe(held_by), 0);
    assert_int_equal(gf_pool_start(pool), 0);
    await_helpers(pool, 3);
    naps_in_the_end();
    gf_pool_open(pool, &job, 1);
    while (!gf_load_relaxed(&inside))
        usleep(1000);
    const unsigned long before = naps_in_the_end();
    for (uint64_t limit = 2; limit <= 20; limit++) {
        gf_pool_raise(pool, &job, limit);
        usleep(1000);
    }
    assert_int_equal(naps_in_the_end(), before);
    assert_int_equal(write(held_by[1], "x", 1), 1);
    while (gf_pieces_help(&job))
        ;
    assert_int_equal(gf_pool_close(pool, &job), GF_PIECE_NONE);
    close(held_by[0]);
    close(held_by[1]);
}

static uint64_t cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

static void asleep_when_idle(void **state)
{
    (void)state;
    usleep(20000);
    const uint64_t before = cpu_us();
    usleep(300000);
    assert_true(cpu_us() - before < 30000); /* one spinning helper would use ten times that */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_helpers_limits_wakeups),
        cmocka_unit_test(asleep_when_idle),
    };
    return cmocka_run_group_tests_name("pool_sleep", tests, NULL, NULL);
}
