/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of files by fread, pread64 and read, as libraries that load models make them: filereads
 * WHAT FOLDER TORCH SAFETENSORS PYTHON. The program prints the same with and without the library.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST (40 * MIB)
#define ODD 13 /* the file's last bytes, which are no whole block */

static char path[4096];
static size_t (*stream_read)(void *, size_t, size_t, FILE *);
static ssize_t (*tensor_read)(int, void *, size_t, off_t);
static ssize_t (*file_read)(int, void *, size_t);
static unsigned char *source, *into;
static CUcontext context;

static void make_file(void)
{
    FILE *file = fopen(path, "w");
    WANT(file && fwrite(source, 1, MOST + ODD, file) == MOST + ODD && fclose(file) == 0);
}

/* The loader resolves the pointer to fread at the first call. */
static void warm_up(void)
{
    FILE *file = fopen(path, "r");
    WANT(stream_read(into, 1, 100, file) == 100);
    fclose(file);
    kit_await_imports();
}

/* Reads once, and prints all that the program can see of the result and of the stream. */
static void read_once(FILE *file, size_t size, size_t count, const char *what)
{
    memset(into, 0xee, MOST + MIB);
    errno = 77;
    const size_t got = stream_read(into, size, count, file);
    const int error = errno;
    const size_t bytes = got * size < MOST + MIB ? got * size : MOST + MIB;
    printf("%s %zu*%zu: %zu, errno %d, sum %u, eof %d, error %d", what, size, count, got, error,
           kit_sum(into, bytes), feof(file), ferror(file));
    printf(", behind %d", into[bytes] == 0xee);
    printf(", at %ld, descriptor at %ld", (long)ftello(file),
           (long)lseek(fileno(file), 0, SEEK_CUR));
    printf(", next %d, at %ld, descriptor at %ld\n", getc(file), (long)ftello(file),
           (long)lseek(fileno(file), 0, SEEK_CUR));
}

static void stream(void)
{
    static const size_t starts[] = {0, 64, 5000, MIB + 4095};
    static const size_t sizes[] = {4 * MIB - 1,        4 * MIB,        4 * MIB + 1, 5 * MIB + 4096,
                                   9 * MIB + 4096 - 1, 33 * MIB + 777, MOST + ODD,  MOST + MIB / 2};
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            FILE *file = fopen(path, "r");
            if (starts[s])
                fseeko(file, (off_t)starts[s], SEEK_SET);
            printf("from %zu: ", starts[s]);
            read_once(file, 1, sizes[i], "bytes");
            read_once(file, 7, sizes[i] / 14, "sevens");
            rewind(file);
            read_once(file, sizes[i], 1, "whole");
            fclose(file);
        }
}

/* Streams in other states: buffers of other sizes, bytes put back, other modes. */
static void states(void)
{
    static const size_t buffers[] = {1, 64, 100, 128, 1000, 4096, 65536, 1 << 20, 3000000};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        FILE *file = fopen(path, "r");
        setvbuf(file, NULL, buffers[i] == 1 ? _IONBF : _IOFBF, buffers[i]);
        printf("buffer %zu: ", buffers[i]);
        read_once(file, 1, 9 * MIB + 5, "bytes");
        read_once(file, 1, 9 * MIB, "again");
        fclose(file);
    }
    FILE *file = fopen(path, "r");
    for (int i = 0; i < 10; i++)
        getc(file);
    ungetc('x', file);
    read_once(file, 1, 8 * MIB, "put back");
    ungetc('y', file);
    ungetc('z', file);
    read_once(file, 1, 8 * MIB, "two put back");
    fseeko(file, -100, SEEK_END);
    read_once(file, 1, 8 * MIB, "behind the end");
    read_once(file, 1, 8 * MIB, "at the end");
    fclose(file);
    file = fopen(path, "r+");
    WANT(fseeko(file, 5, SEEK_SET) == 0 && fputc(source[5], file) != EOF);
    fflush(file);
    read_once(file, 1, 8 * MIB, "after a write");
    fclose(file);
    file = fopen(path, "a+");
    fseeko(file, 77, SEEK_SET);
    read_once(file, 1, 8 * MIB, "appending");
    fclose(file);
    file = fopen(path, "w+");
    read_once(file, 1, 8 * MIB, "empty");
    fclose(file);
    make_file();
    file = fopen(path, "r");
    lseek(fileno(file), 100, SEEK_SET);
    read_once(file, 1, 8 * MIB, "moved descriptor");
    fclose(file);
    file = fopen(path, "a");
    read_once(file, 1, 8 * MIB, "not for reading");
    fclose(file);
    file = fopen("/proc/self/exe", "r");
    WANT(stream_read(into, 1, 4 * MIB, file) > 0);
    fclose(file);
    file = fmemopen(source, 9 * MIB, "r");
    memset(into, 0, MOST);
    const size_t got = stream_read(into, 1, 8 * MIB, file);
    printf("memory: %zu, sum %u\n", got, kit_sum(into, got));
    fclose(file);
}

/* Reads at the descriptor's offset, and prints all that the program can see of the result. */
static void read_at_offset(int fd, unsigned char *to, size_t bytes, const char *what)
{
    errno = 77;
    const ssize_t got = file_read(fd, to, bytes);
    const int error = errno;
    printf("%s %zu: %zd, errno %d, sum %u, descriptor at %ld\n", what, bytes, got, error,
           kit_sum(to, got > 0 ? (size_t)got : 0), (long)lseek(fd, 0, SEEK_CUR));
}

/* The target exceeds the address space. */
static void impossible(int fd)
{
    static const size_t sizes[] = {1UL << 47, 1UL << 62, 1UL << 63, SIZE_MAX - 4095};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        FILE *file = fopen(path, "r");
        lseek(fd, 0, SEEK_SET);
        read_at_offset(fd, into, sizes[i], "impossible");
        errno = 77;
        const ssize_t got = tensor_read(fd, into, sizes[i], 0);
        printf("impossible: %zd, errno %d\n", got, errno);
        errno = 77;
        const size_t count = stream_read(into, 1, sizes[i], file);
        printf("impossible: %zu, errno %d, error %d, at %ld\n", count, errno, ferror(file),
               (long)ftello(file));
        fclose(file);
    }
}

/* A part of the target cannot be written, or the file is truncated. */
static void errors(void)
{
    WANT(mprotect(into + 6 * MIB, 4096, PROT_READ) == 0);
    FILE *file = fopen(path, "r");
    errno = 77;
    size_t got = stream_read(into, 1, 9 * MIB, file);
    printf("protected: %zu, errno %d, error %d, at %ld\n", got, errno, ferror(file),
           (long)ftello(file));
    fclose(file);
    const int fd = open(path, O_RDONLY);
    errno = 77;
    const ssize_t part = tensor_read(fd, into, 9 * MIB, 100);
    printf("protected: %zd, errno %d\n", part, errno);
    errno = 77;
    const ssize_t none = tensor_read(fd, into + 6 * MIB, 9 * MIB, 100);
    printf("protected: %zd, errno %d\n", none, errno);
    lseek(fd, 100, SEEK_SET);
    read_at_offset(fd, into, 9 * MIB, "protected");
    read_at_offset(fd, into + 6 * MIB, 9 * MIB, "protected");
    WANT(mprotect(into + 6 * MIB, 4096, PROT_READ | PROT_WRITE) == 0);
    WANT(truncate(path, 7 * MIB + 5) == 0);
    file = fopen(path, "r");
    read_once(file, 1, 9 * MIB, "truncated");
    fclose(file);
    printf("truncated: %zd\n", tensor_read(fd, into, 9 * MIB, 0));
    read_at_offset(fd, into, 9 * MIB, "truncated");
    impossible(fd);
    close(fd);
    read_at_offset(fd, into, 9 * MIB, "closed");
    errno = 77;
    const ssize_t closed = tensor_read(fd, into, 9 * MIB, 0);
    printf("closed: %zd, errno %d\n", closed, errno);
}

static void at_offsets(void)
{
    static const off_t offsets[] = {0,          1,        4096, MIB + 77, MOST - 8 * (off_t)MIB,
                                    MOST + ODD, 1L << 40, -1};
    static const size_t sizes[] = {4 * MIB - 1, 4 * MIB, 8 * MIB + ODD, 33 * MIB + 5, MOST + ODD};
    const int fd = open(path, O_RDONLY);
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(into, 0xee, MOST + MIB);
            errno = 77;
            const ssize_t got = tensor_read(fd, into, sizes[i], offsets[o]);
            printf("at %ld %zu: %zd, errno %d, sum %u, behind %d, descriptor at %ld\n",
                   (long)offsets[o], sizes[i], got, errno, kit_sum(into, got > 0 ? (size_t)got : 0),
                   into[got > 0 ? got : 0] == 0xee, (long)lseek(fd, 0, SEEK_CUR));
        }
    close(fd);
}

/* Reads by read: at many offsets, and of descriptors that are no ordinary files. */
static void descriptor(void)
{
    static const off_t starts[] = {0,          1,       4096, MIB + 77, MOST - 8 * (off_t)MIB,
                                   MOST + ODD, 1L << 40};
    static const size_t sizes[] = {4 * MIB - 1, 4 * MIB, 8 * MIB + ODD, 33 * MIB + 5, MOST + MIB};
    static const struct {
        const char *name;
        int flags;
    } files[] = {{path, O_RDWR},     {path, O_RDONLY | O_DIRECT}, {path, O_WRONLY},
                 {path, O_PATH},     {path, O_RDONLY | O_APPEND}, {"/proc/version", O_RDONLY},
                 {"/tmp", O_RDONLY}, {"/dev/zero", O_RDONLY},     {"/dev/null", O_RDONLY}};
    const int fd = open(path, O_RDONLY);
    int ends[2];

    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(into, 0xee, MOST + MIB);
            lseek(fd, starts[s], SEEK_SET);
            read_at_offset(fd, into, sizes[i], "first");
            read_at_offset(fd, into, sizes[i], "second");
        }
    close(fd);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const int other = open(files[i].name, files[i].flags);
        read_at_offset(other, into, 8 * MIB, files[i].name == path ? "other mode" : files[i].name);
        close(other);
    }
    WANT(pipe(ends) == 0 && write(ends[1], source, 5000) == 5000);
    read_at_offset(ends[0], into, 8 * MIB, "pipe");
    close(ends[0]);
    close(ends[1]);
}

struct part {
    int fd;
    size_t bytes, sum;
};

static void read_part(void *data)
{
    struct part *part = data;
    unsigned char *to = kit_pageable(5 * MIB);
    for (ssize_t got; (got = file_read(part->fd, to, 5 * MIB)) > 0; part->bytes += (size_t)got)
        for (ssize_t i = 0; i < got; i++)
            part->sum += to[i];
    munmap(to, 5 * MIB);
}

/* Two threads and a child process share one offset. Each byte is read once. */
static void shared_offset(void)
{
    size_t all = 0;
    for (size_t i = 0; i < MOST + ODD; i++)
        all += source[i];
    fflush(stdout);
    for (int round = 0; round < 10; round++) {
        struct part parts[3] = {{.fd = open(path, O_RDONLY)}};
        int ends[2];
        parts[1] = parts[2] = parts[0];
        WANT(pipe(ends) == 0);
        const pid_t child = fork();
        if (!child) {
            read_part(&parts[2]);
            _exit(write(ends[1], &parts[2], sizeof *parts) != sizeof *parts);
        }
        kit_thread(context, read_part, &parts[0]);
        kit_thread(context, read_part, &parts[1]);
        kit_join();
        WANT(read(ends[0], &parts[2], sizeof *parts) == sizeof *parts);
        waitpid(child, NULL, 0);
        printf("bytes %zu, sum %d\n", parts[0].bytes + parts[1].bytes + parts[2].bytes,
               parts[0].sum + parts[1].sum + parts[2].sum == all);
        close(parts[0].fd);
        close(ends[0]);
        close(ends[1]);
    }
}

static FILE *cancelled_file;

static void *read_cancelled(void *way)
{
    const int fd = fileno(cancelled_file);
    pthread_cancel(pthread_self());
    if (*(char *)way == 'f')
        stream_read(into, 1, 9 * MIB, cancelled_file);
    else if (*(char *)way == 'p')
        tensor_read(fd, into, 9 * MIB, 0);
    else
        file_read(fd, into, 9 * MIB);
    return NULL;
}

/* A thread that was cancelled ends at its next read, and frees the stream's lock. */
static void cancelled(void)
{
    static char ways[] = "fpr";
    for (char *way = ways; *way; way++) {
        pthread_t thread;
        void *result = NULL;
        cancelled_file = fopen(path, "r");
        WANT(pthread_create(&thread, NULL, read_cancelled, way) == 0);
        pthread_join(thread, &result);
        printf("%c: cancelled %d, descriptor at %ld, ", *way, result == PTHREAD_CANCELED,
               (long)lseek(fileno(cancelled_file), 0, SEEK_CUR));
        printf("lock %d\n", ftrylockfile(cancelled_file));
        fclose(cancelled_file);
    }
}

/* The calling thread has its own descriptors, and the process another file at the same number. */
static void *read_alone(void *unused)
{
    (void)unused;
    char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s.other", path);
    const int fd = open(name, O_RDWR | O_CREAT, 0600);
    WANT(fd >= 0 && ftruncate(fd, MOST) == 0 && unshare(CLONE_FILES) == 0);
    const int file = open(path, O_RDONLY);
    WANT(dup2(file, fd) == fd);
    int wrong = 0;
    for (int i = 0; i < 50; i++) { /* helpers may come too late for one read */
        memset(into, 0, MOST);
        wrong += tensor_read(fd, into, MOST, 0) != MOST || memcmp(into, source, MOST) != 0;
    }
    printf("own descriptors: %d\n", wrong);
    return NULL;
}

static void unshared(void)
{
    pthread_t thread;
    WANT(pthread_create(&thread, NULL, read_alone, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void forked(void)
{
    fflush(stdout);
    FILE *file = fopen(path, "r");
    const pid_t child = fork();
    if (!child) {
        const bool right = stream_read(into, 1, MOST, file) == MOST && !memcmp(into, source, MOST);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child: %d, descriptor at %ld\n", status, (long)lseek(fileno(file), 0, SEEK_CUR));
    fclose(file);
}

static volatile sig_atomic_t alarms, on_helpers;

static void count_alarm(int number)
{
    (void)number;
    alarms++;
    char name[16] = "";
    syscall(SYS_prctl, PR_GET_NAME, name);
    on_helpers += strncmp(name, "gpufeed", 7) == 0;
}

/* Signals arrive during reads. They interrupt none, and no helper handles them. */
static void signals(void)
{
    const struct sigaction action = {.sa_handler = count_alarm}; /* without SA_RESTART */
    FILE *file = fopen(path, "r");
    const int fd = open(path, O_RDONLY);
    const pid_t parent = getpid();

    sigaction(SIGUSR1, &action, NULL);
    const pid_t child = fork();
    while (!child && getppid() == parent && kill(parent, SIGUSR1) == 0)
        usleep(1000);
    if (!child)
        _exit(0);
    for (int i = 0; i < 200 && (i < 20 || alarms < 20); i++) {
        rewind(file);
        WANT(stream_read(into, 1, MOST, file) == MOST);
        WANT(tensor_read(fd, into, MOST, 0) == MOST);
        lseek(fd, 0, SEEK_SET);
        WANT(file_read(fd, into, MOST) == MOST);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("signals: %d, on helpers %d, %d\n", alarms >= 20, (int)on_helpers,
           memcmp(into, source, MOST));
    fclose(file);
    close(fd);
}

static FILE *shared;

static void read_some(void *data)
{
    unsigned long *sum = data;
    unsigned char *to = kit_pageable(5 * MIB);
    for (int i = 0; i < 4; i++) {
        const size_t got = stream_read(to, 1, 5 * MIB, shared);
        for (size_t at = 0; at < got; at++)
            *sum += to[at];
    }
    munmap(to, 5 * MIB);
}

/* Two threads read one stream. Each byte is read once. */
static void threads(void)
{
    static unsigned long sums[2];
    unsigned long all = 0;
    shared = fopen(path, "r");
    kit_thread(context, read_some, &sums[0]);
    kit_thread(context, read_some, &sums[1]);
    kit_join();
    for (size_t i = 0; i < MOST; i++)
        all += source[i];
    printf("threads: %d, at %ld\n", sums[0] + sums[1] == all, (long)ftello(shared));
    fclose(shared);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"stream", stream},         {"states", states},
                 {"errors", errors},         {"offsets", at_offsets},
                 {"unshared", unshared},     {"forked", forked},
                 {"signals", signals},       {"threads", threads},
                 {"descriptor", descriptor}, {"shared-offset", shared_offset},
                 {"cancelled", cancelled}};

    if (argc < 6)
        return 64;
    snprintf(path, sizeof path, "%s/weights", argv[2]);
    *(void **)&stream_read = kit_find(argv[3], "stream_read");
    *(void **)&tensor_read = kit_find(argv[4], "tensor_read");
    *(void **)&file_read = kit_find(argv[5], "file_read");
    context = kit_start();
    source = kit_pageable(MOST + ODD);
    into = kit_pageable(MOST + 2 * MIB);
    kit_fill(source, MOST + ODD, 5);
    make_file();
    warm_up();
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
