/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with cases, of which the argument selects one. A case prints the same in each run. If a
 * CHECK fails, it prints a line and ends the process.
 */
#ifndef FOREIGN_LIBC_CASE_H
#define FOREIGN_LIBC_CASE_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s, errno %d\n", __LINE__, #condition, errno);                        \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct foreign_case {
    const char *name;
    void (*run)(void);
    struct foreign_case *next;
};

static struct foreign_case *foreign_cases;

#define CASE(name_)                                                                                \
    static void case_##name_(void);                                                                \
    __attribute__((constructor)) static void add_##name_(void)                                     \
    {                                                                                              \
        static struct foreign_case row = {#name_, case_##name_, NULL};                             \
        row.next = foreign_cases;                                                                  \
        foreign_cases = &row;                                                                      \
    }                                                                                              \
    static void case_##name_(void)

int main(int argc, char **argv)
{
    for (struct foreign_case *row = foreign_cases; row; row = row->next)
        if (argc > 1 && strcmp(row->name, argv[1]) == 0) {
            row->run();
            puts("done");
            return 0;
        }
    puts("no such case");
    return 2;
}

/* Runs body(number) on threads, and waits for all. */
__attribute__((unused)) static void run_threads(unsigned count, void *(*body)(void *))
{
    pthread_t thread[64];

    CHECK(count <= 64);
    for (uintptr_t i = 0; i < count; i++)
        CHECK(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

/* Returns a number whose value the compiler does not know. */
__attribute__((unused)) static size_t hidden(size_t value)
{
    volatile size_t copy = value;
    return copy;
}

#endif
