/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits KIND MIB [WHEN]: a program whose address space (RLIMIT_AS) is limited to MIB, or with kinds that begin with
 * "data", whose data (RLIMIT_DATA) is. Each line says what succeeded.
 *
 *   parts, data_parts    frees 60 % of the limit, then maps memory, starts threads, runs a child
 *   first, data_first    which share of the limit a first block may have
 *   stacks               threads with small stacks until the kernel refuses one; each allocates
 *   turns                exhausts the limit with blocks of one size, frees all, and again with another size
 *   grow                 realloc until the kernel refuses
 *   holes                frees every other block of many: the process has few mappings, and the holes serve other sizes
 *   raise                exhausts the limit, raises it, and allocates more
 *   move, data_move      realloc of a block that cannot grow in place, from 40 % to 60 % of the limit, and back to little
 *
 * WHEN: setrlimit (default), prlimit, prlimit64 or other (another process sets the limit), or inherited (set before exec)
 */
#include "program.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int limited;

static void limit_to(rlim_t soft, rlim_t hard, const char *when)
{
    const struct rlimit limit = {soft, hard};
    struct rlimit64 limit64 = {soft, hard};
    int bad = 0;
    if (strcmp(when, "prlimit") == 0)
        bad = prlimit(0, limited, &limit, NULL);
    else if (strcmp(when, "prlimit64") == 0)
        bad = prlimit64(getpid(), limited, &limit64, &limit64); /* which becomes the old limit */
    else if (strcmp(when, "other") == 0) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(prlimit(getppid(), limited, &limit, NULL) != 0);
        waitpid(pid, &bad, 0);
    } else if (strcmp(when, "inherited") != 0)
        bad = setrlimit(limited, &limit);
    if (bad)
        fail("limit");
}

static void say(const char *what, int ok)
{
    printf("%s %s\n", what, ok ? "ok" : "fails");
    fflush(stdout);
}

static void *idle(void *arg)
{
    free(malloc(100));
    return arg;
}

static void start_threads(int count)
{
    int started = 0;
    for (pthread_t thread; started < count && pthread_create(&thread, NULL, idle, NULL) == 0;
         started++)
        pthread_join(thread, NULL);
    say("threads", started == count);
}

static void run_child(void)
{
    char line[8] = "";
    FILE *child = popen("echo ok", "r");
    if (child && fgets(line, sizeof line, child))
        pclose(child);
    say("child", strcmp(line, "ok\n") == 0);
}

static void map(size_t size)
{
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("map", found != MAP_FAILED);
    if (found != MAP_FAILED)
        munmap(found, size);
}

/* Allocates blocks until malloc returns NULL, and frees them. Returns how many bytes there were. */
static size_t exhaust(size_t size)
{
    struct node {
        struct node *next;
    } *last = NULL, *node;
    size_t total = 0;
    for (; (node = malloc(size)); total += size) {
        node->next = last;
        last = node;
    }
    if (errno != ENOMEM)
        fail("errno");
    while (last) {
        node = last->next;
        free(last);
        last = node;
    }
    return total;
}

static void parts(size_t limit)
{
    void *volatile block = malloc(limit / 10 * 6);
    say("malloc", block != NULL);
    free(block);
    map(limit / 10 * 6);
    exhaust(MIB);
    start_threads(8);
    map(limit / 10 * 6);
    exhaust(5 * MIB);
    map(limit / 10 * 6);
    run_child();
    block = malloc(limit / 10 * 6);
    say("again", block != NULL);
    free(block);
}

static void turns(size_t limit)
{
    static const size_t size[] = {5000, MIB, 300 << 10, 6 * MIB, 100, 24 * MIB, MIB + 5000};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        char name[32];
        snprintf(name, sizeof name, "blocks of %zu", size[i]);
        say(name, exhaust(size[i]) >= limit / 100 * 55);
    }
    start_threads(4);
    run_child();
}

static void *work(void *arg)
{
    void *volatile block = malloc(100);
    if (!block)
        *(volatile int *)arg = 1;
    usleep(500000);
    free(block);
    return NULL;
}

static void stacks(void)
{
    static pthread_t thread[2000];
    pthread_attr_t attributes;
    int count = 0, null = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    while (count < 2000 && pthread_create(&thread[count], &attributes, work, &null) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    say("100 threads", count >= 100);
}

static void grow(size_t limit)
{
    char *block = NULL, *next;
    size_t size = 65536;
    while ((next = realloc(block, size))) {
        block = next;
        next[size - 1] = 7;
        size += size / 8;
    }
    say("grown to 1/3", size > limit / 3);
    say("errno", errno == ENOMEM);
    free(block);
    map(limit / 10 * 6);
}

static void move(size_t limit)
{
    const size_t size = limit / 10 * 4;
    char *block = malloc(size), *volatile between = malloc(5 * MIB);
    say("malloc", block && between);
    block[0] = block[size - 1] = 5;
    char *moved = realloc(block, limit / 10 * 6);
    say("moved", moved && moved[0] == 5 && moved[size - 1] == 5);
    block = moved ? moved : block;
    while (malloc(1 * MIB))
        ;
    while (malloc(1000))
        ;
    moved = realloc(block, 2 * MIB);
    say("shrunk", moved && moved[0] == 5);
    block = moved ? moved : block;
    moved = realloc(block, 100);
    say("shrunk again", moved && moved[0] == 5);
    free(between);
    free(moved ? moved : block);
}

static int mappings(void)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        count++;
    if (file)
        fclose(file);
    return count;
}

static void holes(void)
{
    enum { count = 5000 };
    static char *blocks[count];
    for (int i = 0; i < count; i++)
        blocks[i] = touched(20000);
    for (int i = 0; i < count; i += 2)
        free(blocks[i]);
    say("few mappings", mappings() < 2000);
    int found = 0;
    for (int i = 0; i < count; i += 2)
        found += (blocks[i] = malloc(25000)) != NULL;
    say("other sizes", found == count / 2);
    for (int i = 0; i < count; i++)
        free(blocks[i]);
    say("mappings at the end", mappings() < 2000);
}

static void raise_limit(size_t limit, const char *when)
{
    exhaust(MIB);
    limit_to(2 * limit, RLIM_INFINITY, when);
    say("raised", exhaust(MIB) > limit / 10 * 13);
    limit_to(RLIM_INFINITY, RLIM_INFINITY, when);
    void *volatile block = malloc(4 * limit);
    say("unlimited", block != NULL);
    free(block);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argv[1], *when = argc > 3 ? argv[3] : "setrlimit";
    const size_t limit = (size_t)atoi(argv[2]) * MIB;
    limited = strncmp(kind, "data", 4) == 0 ? RLIMIT_DATA : RLIMIT_AS;
    kind += limited == RLIMIT_DATA ? 5 : 0;
    start_engine_if_asked();
    free(malloc(10));
    limit_to(limit, RLIM_INFINITY, when);
    if (strcmp(kind, "parts") == 0)
        parts(limit);
    else if (strcmp(kind, "first") == 0)
        for (int percent = 5; percent <= 90; percent += 5) {
            void *volatile block = malloc(limit / 100 * (size_t)percent);
            printf("%d ", percent);
            say("%", block != NULL);
            free(block);
        }
    else if (strcmp(kind, "stacks") == 0)
        stacks();
    else if (strcmp(kind, "turns") == 0)
        turns(limit);
    else if (strcmp(kind, "grow") == 0)
        grow(limit);
    else if (strcmp(kind, "move") == 0)
        move(limit);
    else if (strcmp(kind, "holes") == 0)
        holes();
    else if (strcmp(kind, "raise") == 0)
        raise_limit(limit, when);
    else
        return 2;
    return 0;
}
