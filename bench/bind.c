/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of placement: binding N threads (default 200), reading their masks as the guard does, and
 * loading the machine. Prints a Markdown row for each figure, a median of 21 rounds.
 */
#include "base/clock.h"
#include "host/machine_load.h"
#include "host/tasks.h"
#include "host/bind.h"
#include "host/guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 21

static pthread_barrier_t barrier;

static void *stay(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&barrier);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *what, double *ms)
{
    qsort(ms, ROUNDS, sizeof(*ms), by_value);
    printf("| %s | %.2f ms | %.2f to %.2f ms |\n", what, ms[ROUNDS / 2], ms[0], ms[ROUNDS - 1]);
}

static double since(uint64_t begun)
{
    return (double)(gf_now_ns() - begun) / 1e6;
}

static void bench_bind(const struct gf_cpus *all, const struct gf_cpus *one, unsigned threads)
{
    double ms[ROUNDS];
    struct gf_bind_result result;
    char what[64];

    for (int i = 0; i < ROUNDS; i++) {
        gf_bind_apply(&(struct gf_bind_scope){.from = *all, .to = *one, .descendants = true},
                      &result);
        ms[i] = result.usec / 1e3;
        if (result.bound != threads + 1 || result.failed)
            fprintf(stderr, "bound %u of %u\n", result.bound, threads + 1);
        gf_bind_apply(&(struct gf_bind_scope){.from = *one, .to = *all}, &result);
    }
    snprintf(what, sizeof(what), "bind %u threads", threads);
    print_row(what, ms);
}

static void bench_guard(const struct gf_cpus *all, const struct gf_cpus *one)
{
    double ms[ROUNDS];
    static struct gf_guard_deltas past;
    struct gf_guard_reading reading;

    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begun = gf_now_ns();
        gf_guard_read(&past, one, all, all, &reading);
        ms[i] = since(begun);
    }
    print_row("one reading of the guard", ms);
}

static void bench_machine(void)
{
    double ms[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begun = gf_now_ns();
        struct gf_machine *machine;
        if (gf_machine_load(NULL, &machine))
            return;
        ms[i] = since(begun);
        gf_machine_free(machine);
    }
    print_row("load this machine", ms);
}

int main(int argc, char **argv)
{
    const unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 200;
    pthread_t *thread = calloc(threads, sizeof(*thread));
    struct gf_cpus all, one = {0};

    if (!thread || gf_tasks_get_mask(0, &all))
        return 1;
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, stay, NULL))
            return 1;
    gf_set_add(&one, (unsigned)gf_set_next(&all, 0));
    puts("| what | median | range |\n|---|---|---|");
    bench_bind(&all, &one, threads);
    bench_guard(&all, &one);
    bench_machine();
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return 0;
}
