/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into pinned memory that a library like safetensors makes by memcpy: loads WHAT FOLDER
 * LIBRARY [catch]. The program prints the same with and without the library.
 */
#include "kit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST (40 * MIB)

static const char *folder, *library;
static void *(*tensor_copy)(void *, const void *, size_t);
static void *(*(*tensor_memcpy)(void))(void *, const void *, size_t);
static unsigned char *source, *pinned;
static CUcontext context;

static void open_library(void)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    WANT(handle);
    *(void **)&tensor_copy = dlsym(handle, "tensor_copy");
    *(void **)&tensor_memcpy = dlsym(handle, "tensor_memcpy");
    WANT(tensor_copy && tensor_memcpy);
}

/* Gives the library time to replace the pointer, and to start its threads. */
static void warm_up(void)
{
    const void *before = (const void *)tensor_memcpy();
    pinned = kit_pinned(MOST + MIB);
    for (int i = 0; i < 100 && (const void *)tensor_memcpy() == before; i++)
        kit_sleep_us(5000);
    for (int i = 0; i < 10; i++) {
        tensor_copy(pinned, source, 8 * MIB);
        kit_sleep_us(5000);
    }
}

static unsigned char *map_model(size_t size, size_t kept)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    WANT(fd >= 0 && write(fd, source, size) == (ssize_t)size);
    unsigned char *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    WANT(at != MAP_FAILED && ftruncate(fd, (off_t)kept) == 0);
    close(fd);
    return at;
}

static void copy(const unsigned char *from, size_t odd, size_t bytes, const char *what)
{
    memset(pinned, 0xee, MOST + MIB);
    errno = 77;
    void *got = tensor_copy(pinned + odd, from, bytes);
    const bool kept = errno == 77;
    bool clean = true;
    for (size_t i = 0; i < 256; i++)
        clean =
            clean && pinned[odd + bytes + i] == 0xee && (i >= odd || pinned[odd - 1 - i] == 0xee);
    printf("%s %zu: %s%s%s%s\n", what, bytes, memcmp(pinned + odd, from, bytes) ? "wrong" : "right",
           clean ? "" : ", wrote beyond", kept ? "" : ", errno changed",
           got == pinned + odd ? "" : ", wrong result");
}

static void bytes(void)
{
    static const size_t sizes[] = {1,   4096, 4 * MIB - 1, 4 * MIB, 5 * MIB + 13, 33 * MIB + 4097,
                                   MOST};
    const unsigned char *model = map_model(MOST, MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t odd = 0; odd < 200; odd += 67) {
            copy(source, odd, sizes[i], "heap");
            copy(model, odd, sizes[i], "file");
            copy(model + MOST - sizes[i], odd, sizes[i], "tail");
        }
}

/* The target is ordinary memory, so the library's threads do not help. */
static void pageable(void)
{
    unsigned char *to = kit_pageable(MOST);
    tensor_copy(to, source, MOST);
    printf("pageable: %s\n", memcmp(to, source, MOST) ? "wrong" : "right");
}

static void truncated(void)
{
    copy(map_model(MOST, 13 * MIB + 100), 5, MOST, "truncated");
}

static sigjmp_buf back;

static void leave(int number)
{
    siglongjmp(back, number);
}

/* A handler leaves the copy. The next copy is an ordinary one. */
static void left(void)
{
    signal(SIGBUS, leave);
    for (int i = 0; i < 5; i++) {
        const unsigned char *model = map_model(MOST, 11 * MIB);
        const int number = sigsetjmp(back, 1);
        if (!number)
            tensor_copy(pinned, model, MOST);
        printf("left by signal %d\n", number);
        copy(source, 3, MOST, "next");
    }
}

static volatile sig_atomic_t opened;

static void open_page(int number, siginfo_t *info, void *state)
{
    (void)number;
    (void)state;
    opened++;
    mprotect((void *)((uintptr_t)info->si_addr & -(uintptr_t)4096), 4096, PROT_READ | PROT_WRITE);
}

/* A handler opens each page of the source, as a garbage collector with a read barrier does. */
static void barrier(void)
{
    const struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    unsigned char *at = kit_pageable(8 * MIB);
    memcpy(at, source, 8 * MIB);
    sigaction(SIGSEGV, &action, NULL);
    WANT(mprotect(at + 2 * MIB, MIB, PROT_NONE) == 0);
    copy(at, 0, 8 * MIB, "barrier");
    printf("%d pages opened\n", (int)opened);
}

/* A child uses the library, too, where it has no driver and no helper threads. */
static void forked(void)
{
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        tensor_copy(pinned, source + 64, MOST - 64);
        _exit(memcmp(pinned, source + 64, MOST - 64) ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child: %d, parent: %s\n", status,
           memcmp(pinned, source + 64, MOST - 64) ? "differs" : "sees it");
}

static void copy_many(void *data)
{
    for (int i = 0; i < 20; i++)
        tensor_copy(data, source, 8 * MIB);
    WANT(memcmp(data, source, 8 * MIB) == 0);
}

static void threads(void)
{
    for (size_t i = 0; i < 5; i++)
        kit_thread(context, copy_many, pinned + i * 8 * MIB);
    kit_join();
}

static CUdeviceptr device;
static unsigned char small[128 << 10];

static void copy_in_handler(int number)
{
    (void)number;
    WANT(cu.cuMemcpyHtoD_v2(device, small, sizeof small) == CUDA_SUCCESS);
}

/* The handler calls the driver while the interrupted copy may wait for it, at changing times. */
static void handler(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    const struct sigaction action = {.sa_handler = copy_in_handler, .sa_flags = SA_RESTART};
    timer_t timer;

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    device = kit_device(sizeof small);
    sigaction(SIGUSR1, &action, NULL);
    WANT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    for (int i = 0; i < 600; i++) {
        const struct itimerspec once = {.it_value.tv_nsec = 1 + rand() % 10000};
        timer_settime(timer, 0, &once, NULL);
        tensor_copy(pinned, source, 4 * MIB);
    }
    printf("copies in handlers: %d\n", memcmp(pinned, source, 4 * MIB));
}

static volatile sig_atomic_t copied;

static void load_in_handler(int number)
{
    (void)number;
    tensor_copy(pinned, source, 8 * MIB);
    copied++;
}

/* A handler makes the copy while its thread is in a call of the driver (SIM_DELAY). */
static void within(void)
{
    const struct sigaction action = {.sa_handler = load_in_handler, .sa_flags = SA_RESTART};
    const struct itimerval soon = {.it_value.tv_usec = 30000};

    device = kit_device(sizeof small);
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 3; i++) {
        setitimer(ITIMER_REAL, &soon, NULL);
        MUST(cu.cuMemcpyHtoD_v2(device, small, sizeof small));
        WANT(copied == i + 1);
    }
    printf("within calls: %d\n", memcmp(pinned, source, 8 * MIB));
}

/* Ordinary memory at the place of a freed pinned buffer. */
static void freed(void)
{
    void *at = kit_pinned(64 * MIB);

    MUST(cu.cuMemFreeHost(at));
    MUST(cu.cuMemFreeHost(pinned));
    pinned = mmap(at, MOST + MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                  -1, 0);
    WANT(pinned == at);
    for (int i = 0; i < 20; i++)
        copy(source, 0, MOST, "freed");
}

/* Memory of the program that it registers, and unregisters again. */
static void registered(void)
{
    pinned = kit_pageable(MOST + MIB);
    MUST(cu.cuMemHostRegister_v2(pinned, MOST + MIB, 0));
    for (int i = 0; i < 20; i++)
        copy(source, 0, MOST, "registered");
    MUST(cu.cuMemHostUnregister(pinned));
    copy(source, 0, MOST, "unregistered");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"bytes", bytes},          {"pageable", pageable},
                 {"truncated", truncated},  {"left", left},
                 {"barrier", barrier},      {"forked", forked},
                 {"threads", threads},      {"protected", bytes},
                 {"old-kernel", bytes},     {"handler", handler},
                 {"within", within},        {"freed", freed},
                 {"registered", registered}};

    if (argc < 4)
        return 64;
    folder = argv[2];
    library = argv[3];
    if (strcmp(argv[1], "old-kernel") == 0)
        kit_refuse("populate-write");
    context = kit_start();
    source = kit_pageable(MOST);
    kit_fill(source, MOST, 5);
    if (strcmp(argv[1], "protected") == 0)
        kit_refuse("protect");
    open_library();
    warm_up();
    if (argc > 4)
        kit_catch_signals(NULL);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
