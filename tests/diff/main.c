/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff [--seed N] [--calls N] [--threads N] [--devices N] [--largest BYTES] [--fault]
 * [--no-captures] [--no-forks] [--leave-batches] [--errno]
 *
 * Exit code 77 if there is no driver, 3 if the program itself failed.
 */
#include "diff.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNCHANGED 77 /* errno before the calls of each line */

struct driver cu;
struct options options = {.seed = 1,
                          .calls = 10000,
                          .threads = 1,
                          .largest = (size_t)16 << 20,
                          .devices = 1,
                          .captures = true,
                          .forks = true};
static pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER;

void say(struct thread *t, const char *format, ...)
{
    const int error = errno;
    va_list args;
    va_start(args, format);
    fprintf(t->out, "%u %05lu ", t->number, t->calls);
    vfprintf(t->out, format, args);
    if (options.errors)
        fprintf(t->out, ", errno %d", error);
    fputc('\n', t->out);
    va_end(args);
    errno = UNCHANGED;
}

void crash(struct thread *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(t->out);
    rewind(t->out);
    for (int c; (c = fgetc(t->out)) != EOF;)
        putchar(c);
    printf("%u: ", t->number);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    _exit(3);
}

void must(struct thread *t, CUresult result, const char *what)
{
    if (result)
        crash(t, "%s -> %d", what, (int)result);
}

void captures_enter(void)
{
    pthread_rwlock_rdlock(&captures);
}

void captures_leave(void)
{
    pthread_rwlock_unlock(&captures);
}

void quiet_enter(void)
{
    pthread_rwlock_wrlock(&captures);
}

void quiet_leave(void)
{
    pthread_rwlock_unlock(&captures);
}

static const struct {
    void (*act)(struct thread *);
    unsigned weight;
} actions[] = {
    {act_h2d, 260},      {act_d2h, 160},           {act_d2d, 40},
    {act_h2h, 20},       {act_memset, 40},         {act_2d, 40},
    {act_3d, 30},        {act_batch, 40},          {act_kernel, 20},
    {act_sync, 40},      {act_query, 20},          {host_churn, 30},
    {act_pin_wrong, 30}, {act_attributes, 4},      {act_fork, 1},
    {act_gate, 10},      {act_pin_reuse, 20},      {act_host_function, 20},
    {act_wrong, 60},     {act_capture, 12},        {streams_churn, 4},
    {world_switch, 2},   {act_without_context, 4}, {act_event, 20},
    {act_peer, 15},      {act_register, 15},       {act_primary, 3},
};

static void act(struct thread *t)
{
    unsigned all = 0, at = 0;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        all += actions[i].weight;
    unsigned which = (unsigned)any(t, all);
    while (which >= actions[at].weight)
        which -= actions[at++].weight;
    t->orders = 0;
    actions[at].act(t);
    if (chance(t, 1)) {
        struct device *d = any_device(t);
        device_drop(t, d);
        device_make(t, d, any_room(t, options.largest));
    }
}

static void begin(struct thread *t)
{
    for (unsigned i = 0; i < WORLDS; i++)
        t->world[i].number = i;
    world_make(t, &t->world[0], true);
    for (int i = 0; i < HOSTS; i++)
        if (t->host[i].kind == kind_none)
            host_make(t, &t->host[i], (enum kind)(1 + i % (kind_count - 1)),
                      i % 3 ? any_room(t, options.largest) : options.largest);
}

/* Checks all remaining memory at the end. */
static void end(struct thread *t)
{
    if (t->now->number)
        world_end(t, t->now);
    for (int i = 0; i < DEVICES; i++)
        read_back(t, &t->now->device[i], 0, t->now->device[i].size);
    for (struct host *h = t->host; h < t->host + HOSTS; h++)
        if (h->kind != kind_none) {
            host_settle(t, h);
            say(t, "end %s %016lx", kind_name(h->kind), (unsigned long)hash(h->at, h->size));
        }
    if (options.fault && options.threads == 1)
        act_break(t);
    for (struct host *h = t->host; h < t->host + HOSTS && !t->ended; h++)
        if (h->kind != kind_none)
            host_drop(t, h);
}

static void *run(void *closure)
{
    struct thread *t = closure;
    begin(t);
    while (t->calls < options.calls)
        act(t);
    end(t);
    say(t, "end after %lu calls", t->calls);
    return NULL;
}

static bool read_switch(const char *name)
{
    if (strcmp(name, "--fault") == 0)
        options.fault = true;
    else if (strcmp(name, "--no-captures") == 0)
        options.captures = false;
    else if (strcmp(name, "--no-forks") == 0)
        options.forks = false;
    else if (strcmp(name, "--leave-batches") == 0)
        options.leaves_batches = true;
    else if (strcmp(name, "--errno") == 0)
        options.errors = true;
    else
        return false;
    return true;
}

static bool read_number(const char *name, const char *value)
{
    char *rest = NULL;
    const uint64_t number = strtoull(value, &rest, 0);
    if (strcmp(name, "--seed") == 0)
        options.seed = number;
    else if (strcmp(name, "--calls") == 0)
        options.calls = number;
    else if (strcmp(name, "--devices") == 0)
        options.devices = (unsigned)number;
    else if (strcmp(name, "--threads") == 0)
        options.threads = (unsigned)number;
    else if (strcmp(name, "--largest") == 0)
        options.largest = number;
    else
        return false;
    return *value && !*rest;
}

static int read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (read_switch(argv[i]))
            continue;
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!read_number(argv[i], value)) {
            fprintf(stderr, "diff: what is %s %s?\n", argv[i], value);
            return 2;
        }
        i++;
    }
    return 0;
}

static int load(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
#define USE(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
#include "functions.def"
#undef USE
    return cu.cuInit(0) ? 77 : 0;
}

static int start(struct thread *threads, pthread_t *ids)
{
    for (unsigned i = 0; i < options.threads; i++) {
        threads[i].number = i;
        threads[i].state = options.seed * 1000003 + i;
        threads[i].out = tmpfile();
        if (!threads[i].out || (i && pthread_create(&ids[i], NULL, run, &threads[i])))
            return 3;
    }
    run(&threads[0]);
    for (unsigned i = 1; i < options.threads; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < options.threads; i++) {
        rewind(threads[i].out);
        for (int c; (c = fgetc(threads[i].out)) != EOF;)
            putchar(c);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int failed = read_options(argc, argv);
    if (!failed)
        failed = load();
    if (failed)
        return failed;
    struct thread *threads = calloc(options.threads, sizeof *threads);
    pthread_t *ids = calloc(options.threads, sizeof *ids);
    return threads && ids ? start(threads, ids) : 3;
}
