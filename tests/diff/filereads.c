/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of files by pread64 and read, as libraries that load models make them: filereads WHAT
 * FOLDER SAFETENSORS PYTHON. The program prints the same with and without the library.
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
#include <time.h>
#include <unistd.h>

#define MOST (40 * MIB)
#define RACED (16 * MIB) /* a read with which another thread races; has 16 pieces */
#define ODD 13           /* the file's last bytes, which are no whole block */

static char path[4096];
static struct kit_readers library;
static unsigned char *source, *into;
static CUcontext context;

static void make_file(void)
{
    FILE *file = fopen(path, "w");
    WANT(file && fwrite(source, 1, MOST + ODD, file) == MOST + ODD && fclose(file) == 0);
}

/* Reads at the descriptor's offset, and prints all that the program can see of the result. */
static void read_at_offset(int fd, unsigned char *to, size_t bytes, const char *what)
{
    errno = 77;
    const ssize_t got = library.read(fd, to, bytes);
    const int error = errno;
    printf("%s %zu: %zd, errno %d, sum %u, descriptor at %ld\n", what, bytes, got, error,
           kit_sum(to, got > 0 ? (size_t)got : 0), (long)lseek(fd, 0, SEEK_CUR));
}

/* The target exceeds the address space. */
static void impossible(int fd)
{
    static const size_t sizes[] = {1UL << 47, 1UL << 62, 1UL << 63, SIZE_MAX - 4095};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lseek(fd, 0, SEEK_SET);
        read_at_offset(fd, into, sizes[i], "impossible");
        errno = 77;
        const ssize_t got = library.pread(fd, into, sizes[i], 0);
        printf("impossible: %zd, errno %d\n", got, errno);
    }
}

/* A part of the target cannot be written, or the file is truncated. */
static void errors(void)
{
    WANT(mprotect(into + 6 * MIB, 4096, PROT_READ) == 0);
    const int fd = open(path, O_RDONLY);
    errno = 77;
    const ssize_t part = library.pread(fd, into, 9 * MIB, 100);
    printf("protected: %zd, errno %d\n", part, errno);
    errno = 77;
    const ssize_t none = library.pread(fd, into + 6 * MIB, 9 * MIB, 100);
    printf("protected: %zd, errno %d\n", none, errno);
    lseek(fd, 100, SEEK_SET);
    read_at_offset(fd, into, 9 * MIB, "protected");
    read_at_offset(fd, into + 6 * MIB, 9 * MIB, "protected");
    WANT(mprotect(into + 6 * MIB, 4096, PROT_READ | PROT_WRITE) == 0);
    WANT(truncate(path, 7 * MIB + 5) == 0);
    printf("truncated: %zd\n", library.pread(fd, into, 9 * MIB, 0));
    read_at_offset(fd, into, 9 * MIB, "truncated");
    impossible(fd);
    close(fd);
    read_at_offset(fd, into, 9 * MIB, "closed");
    errno = 77;
    const ssize_t closed = library.pread(fd, into, 9 * MIB, 0);
    printf("closed: %zd, errno %d\n", closed, errno);
}

/* The target is the file itself, the second time behind another page: each byte moves to a lower offset. */
static void moved(void)
{
    const int fd = open(path, O_RDWR);
    unsigned char *const page =
        mmap(NULL, 4096 + MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WANT(page != MAP_FAILED);
    unsigned char *const file =
        mmap(page + 4096, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    WANT(file != MAP_FAILED);
    for (unsigned i = 0; i < 10; i++) {
        lseek(fd, 4096, SEEK_SET);
        read_at_offset(fd, file, MOST - 4096, "moved");
        WANT(library.pread(fd, page, MOST - 4096, 4096) == MOST - 4096);
        printf("moved: sum %u\n", kit_sum(file, MOST));
    }
    close(fd);
}

/* The same memory is mapped at several places of the target: the last bytes stay there. */
static void mirrored(void)
{
    const int fd = open(path, O_RDONLY), memory = memfd_create("mirrored", 0);
    unsigned char *const to =
        mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WANT(to != MAP_FAILED && ftruncate(memory, 2 * MIB) == 0);
    for (size_t at = 0; at < MOST; at += 2 * MIB)
        WANT(mmap(to + at, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
             to + at);
    for (unsigned i = 0; i < 20; i++) {
        WANT(library.pread(fd, to, MOST, 0) == MOST);
        printf("mirrored: %s\n",
               memcmp(to, source + MOST - 2 * MIB, 2 * MIB) ? "other bytes" : "the last bytes");
    }
    close(memory);
    close(fd);
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
            const ssize_t got = library.pread(fd, into, sizes[i], offsets[o]);
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

#define READERS 5 /* four threads and a child process */
#define CHUNK (5 * MIB)
#define CHUNKS (MOST / CHUNK)

struct reader {
    int fd;
    int seen[CHUNKS + 1]; /* how often each chunk was read; the last is the bytes behind them */
    int wrong;            /* reads that are no chunk */
};

static void read_chunks(void *data)
{
    struct reader *reader = data;
    unsigned char *to = kit_pageable(CHUNK);
    for (ssize_t got; (got = library.read(reader->fd, to, CHUNK)) > 0;) {
        size_t chunk = 0;
        while (chunk < CHUNKS && memcmp(to, source + chunk * CHUNK, ODD) != 0)
            chunk++;
        const size_t bytes = chunk < CHUNKS ? CHUNK : ODD;
        reader->seen[chunk]++;
        reader->wrong += (size_t)got != bytes || memcmp(to, source + chunk * CHUNK, bytes) != 0;
    }
    munmap(to, CHUNK);
}

/* Whether each chunk was read by one reader, once and completely. */
static bool are_complete(const struct reader *readers)
{
    bool ret = true;
    for (int i = 0; i < READERS; i++)
        ret &= readers[i].wrong == 0;
    for (size_t chunk = 0; chunk <= CHUNKS; chunk++) {
        int seen = 0;
        for (int i = 0; i < READERS; i++)
            seen += readers[i].seen[chunk];
        ret &= seen == 1;
    }
    return ret;
}

/* Threads and a child process share one offset. */
static void shared_offset(void)
{
    int incomplete = 0;
    fflush(stdout);
    for (unsigned round = kit_rounds(40); round; round--) {
        const int fd = open(path, O_RDONLY);
        struct reader readers[READERS] = {0};
        int ends[2];
        for (int i = 0; i < READERS; i++)
            readers[i].fd = fd;
        WANT(pipe(ends) == 0);
        const pid_t child = fork();
        if (!child) {
            read_chunks(&readers[0]);
            _exit(write(ends[1], readers, sizeof *readers) != sizeof *readers);
        }
        for (int i = 1; i < READERS; i++)
            kit_thread(context, read_chunks, &readers[i]);
        kit_join();
        WANT(read(ends[0], readers, sizeof *readers) == sizeof *readers);
        waitpid(child, NULL, 0);
        incomplete += !are_complete(readers);
        close(fd);
        close(ends[0]);
        close(ends[1]);
    }
    printf("incomplete: %d\n", incomplete);
}

static int victim, files[2];
static volatile sig_atomic_t is_over;

static void *replace(void *unused)
{
    for (int i = 0; !is_over; i++) {
        WANT(dup2(files[i & 1], victim) == victim);
        usleep(1); /* so that the descriptor is often the same file before and after a piece */
    }
    return unused;
}

/* Whether the bytes are of both files. The second one contains zeros only. */
static bool are_mixed(ssize_t got)
{
    static const unsigned char zeros[64];
    int of[2] = {0};
    for (ssize_t at = 0; at + 64 <= got; at += 4096)
        of[memcmp(into + at, zeros, 64) == 0]++;
    return of[0] && of[1];
}

/* Another thread replaces the descriptor by another file. No call gets bytes of both. */
static void replaced(void)
{
    char name[sizeof path + 8];
    pthread_t thread;
    int mixed = 0;

    snprintf(name, sizeof name, "%s.other", path);
    files[0] = open(path, O_RDONLY);
    files[1] = open(name, O_RDWR | O_CREAT, 0600);
    WANT(files[1] >= 0 && ftruncate(files[1], MOST) == 0 && (victim = dup(files[0])) >= 0);
    WANT(pthread_create(&thread, NULL, replace, NULL) == 0);
    for (unsigned i = kit_rounds(60); i; i--) {
        mixed += are_mixed(library.pread(victim, into, RACED, 0));
        lseek(victim, 0, SEEK_SET);
        mixed += are_mixed(library.read(victim, into, RACED));
    }
    is_over = true;
    pthread_join(thread, NULL);
    printf("mixed: %d\n", mixed);
}

static void *close_soon(void *unused)
{
    usleep(200);
    close(victim);
    is_over = true;
    return unused;
}

/* Another thread closes the descriptor within a call, which goes on with the file, or before it. */
static void closed(void)
{
    int odd = 0;
    for (unsigned i = kit_rounds(100); i; i--) {
        pthread_t thread;
        WANT((victim = open(path, O_RDONLY)) >= 0);
        is_over = false;
        WANT(pthread_create(&thread, NULL, close_soon, NULL) == 0);
        while (!is_over) {
            errno = 0;
            const ssize_t got = library.pread(victim, into, RACED, 0);
            odd += got == RACED ? memcmp(into, source, RACED) != 0 : got != -1 || errno != EBADF;
        }
        pthread_join(thread, NULL);
    }
    printf("odd: %d\n", odd);
}

/* A lock of the process on the file stays, which any close of the file by it would drop. */
static void locked(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = open(path, O_RDWR);
    WANT(fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0);
    for (int i = 0; i < 20; i++)
        WANT(library.pread(fd, into, MOST, 0) == MOST && library.read(fd, into, MOST) >= 0);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        const int other = open(path, O_RDWR);
        _exit(fcntl(other, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("locked: %d\n", status);
}

static int cancelled_fd;

static void *read_cancelled(void *way)
{
    pthread_cancel(pthread_self());
    if (*(char *)way == 'p')
        library.pread(cancelled_fd, into, 9 * MIB, 0);
    else
        library.read(cancelled_fd, into, 9 * MIB);
    return NULL;
}

/* A thread that was cancelled ends at its next read. */
static void cancelled(void)
{
    static char ways[] = "pr";
    cancelled_fd = open(path, O_RDONLY);
    for (char *way = ways; *way; way++) {
        pthread_t thread;
        void *result = NULL;
        WANT(pthread_create(&thread, NULL, read_cancelled, way) == 0);
        pthread_join(thread, &result);
        printf("%c: cancelled %d, descriptor at %ld\n", *way, result == PTHREAD_CANCELED,
               (long)lseek(cancelled_fd, 0, SEEK_CUR));
    }
    close(cancelled_fd);
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
    for (unsigned i = kit_rounds(50); i; i--) { /* helpers may come too late for one read */
        memset(into, 0, MOST);
        wrong += library.pread(fd, into, MOST, 0) != MOST || memcmp(into, source, MOST) != 0;
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
    const int fd = open(path, O_RDONLY);
    const pid_t child = fork();
    if (!child)
        _exit(library.read(fd, into, MOST) == MOST && !memcmp(into, source, MOST) ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    printf("child: %d, descriptor at %ld\n", status, (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
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
    const int fd = open(path, O_RDONLY);
    const pid_t parent = getpid();

    sigaction(SIGUSR1, &action, NULL);
    const pid_t child = fork();
    while (!child && getppid() == parent && kill(parent, SIGUSR1) == 0)
        usleep(1000);
    if (!child)
        _exit(0);
    for (int i = 0; i < 200 && (i < 20 || alarms < 20); i++) {
        WANT(library.pread(fd, into, MOST, 0) == MOST);
        lseek(fd, 0, SEEK_SET);
        WANT(library.read(fd, into, MOST) == MOST);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("signals: %d, on helpers %d, %d\n", alarms >= 20, (int)on_helpers,
           memcmp(into, source, MOST));
    close(fd);
}

#define FORKS 10

static volatile sig_atomic_t children;
static pid_t family;

/* The child goes on with the read that the signal has interrupted. */
static void fork_here(int number)
{
    (void)number;
    if (getpid() == family && children < FORKS && fork() > 0)
        children++;
}

static void *interrupt(void *thread)
{
    while (!is_over && children < FORKS) {
        usleep(1500);
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    }
    return NULL;
}

/*
 * Handlers fork within reads. Parent and children get all bytes. Reads at a shared offset are not
 * tested, because a handler may run before the call.
 */
static void forking_handler(void)
{
    const struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    const int fd = open(path, O_RDONLY);
    pthread_t self = pthread_self(), thread;
    bool right = true;
    int status;

    family = getpid();
    sigaction(SIGUSR1, &action, NULL);
    WANT(pthread_create(&thread, NULL, interrupt, &self) == 0);
    while (right && children < FORKS) {
        memset(into, 0, MOST);
        right = library.pread(fd, into, MOST, 0) == MOST && memcmp(into, source, MOST) == 0;
        if (getpid() != family)
            _exit(right ? 0 : 1);
    }
    is_over = true;
    pthread_join(thread, NULL);
    while (wait(&status) > 0)
        right &= status == 0;
    printf("forks in handlers: %d\n", right);
    close(fd);
}

static CUdeviceptr device;

static void copy_in_handler(int number)
{
    (void)number;
    WANT(cu.cuMemcpyHtoD_v2(device, source, MIB) == CUDA_SUCCESS);
    alarms++;
}

/* The handler copies to the device while the interrupted read holds locks, at changing times. */
static void copying_handler(void)
{
    const int fd = open(path, O_RDONLY);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    const struct sigaction action = {.sa_handler = copy_in_handler, .sa_flags = SA_RESTART};
    timer_t timer;

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    device = kit_device(MIB);
    sigaction(SIGUSR1, &action, NULL);
    WANT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    for (int i = 0; i < 400; i++) {
        const struct itimerspec once = {.it_value.tv_nsec = 1000 + rand() % 30000};
        timer_settime(timer, 0, &once, NULL);
        WANT(library.pread(fd, into, 4 * MIB, 0) == 4 * MIB);
    }
    printf("copies in handlers: %d\n", memcmp(into, source, 4 * MIB));
    close(fd);
}

static void *change_priority(void *closure)
{
    const struct sched_param lowest = {.sched_priority = 1}, none = {0};
    const pid_t reader = *(pid_t *)closure;

    while (!is_over && sched_setscheduler(reader, SCHED_FIFO, &lowest) == 0) {
        usleep(3000);
        sched_setscheduler(reader, SCHED_OTHER, &none);
        usleep(5000);
    }
    return NULL;
}

/* Another thread gives the reading thread a real-time priority, and takes it back. */
static void hurried(void)
{
    const int fd = open(path, O_RDONLY);
    pid_t self = (pid_t)syscall(SYS_gettid);
    pthread_t thread;

    WANT(pthread_create(&thread, NULL, change_priority, &self) == 0);
    for (int i = 0; i < 30; i++)
        WANT(library.pread(fd, into, MOST, 0) == MOST);
    is_over = true;
    pthread_join(thread, NULL);
    printf("hurried: %d\n", memcmp(into, source, MOST));
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"errors", errors},
                 {"offsets", at_offsets},
                 {"unshared", unshared},
                 {"forked", forked},
                 {"signals", signals},
                 {"forking-handler", forking_handler},
                 {"descriptor", descriptor},
                 {"shared-offset", shared_offset},
                 {"replaced", replaced},
                 {"cancelled", cancelled},
                 {"closed", closed},
                 {"locked", locked},
                 {"moved", moved},
                 {"mirrored", mirrored},
                 {"copying-handler", copying_handler},
                 {"hurried", hurried}};

    if (argc < 5)
        return 64;
    snprintf(path, sizeof path, "%s/weights", argv[2]);
    context = kit_start();
    source = kit_pageable(MOST + ODD);
    into = kit_pageable(MOST + 2 * MIB);
    kit_fill(source, MOST + ODD, 5);
    make_file();
    library = kit_await_readers(argv[3], argv[4]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
