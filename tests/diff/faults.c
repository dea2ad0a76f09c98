/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from and to memory that is partly inaccessible: faults WHAT WHERE SIZE [catch]. Without
 * `catch`, the signal kills the process. With it, a handler prints the signal, the thread and the
 * page. WHERE is the position of the bad page in percent. With FAULTS_OLD_KERNEL, a filter refuses
 * the query that describes mappings.
 */
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static unsigned char *host;
static size_t size, bad; /* in bytes; the position of the bad page */
static pid_t caller;

static const char *place(uintptr_t at)
{
    const size_t offset = at - (uintptr_t)host;
    return offset >= bad && offset < size ? " where it is bad" : " elsewhere";
}

/* A file shorter than its mapping: access beyond its end raises SIGBUS. */
static void truncated(void)
{
    char name[] = "/tmp/gpufeed-faults-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) || ftruncate(fd, (off_t)size))
        exit(77);
    host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (host == MAP_FAILED)
        exit(77);
    memset(host, 1, size);
    if (ftruncate(fd, (off_t)bad))
        exit(77);
}

static void anonymous(void)
{
    host = kit_pageable(size);
    kit_fill(host, size, 7);
}

static void hole(void)
{
    anonymous();
    mprotect(host + bad, PAGE, PROT_NONE);
}

static void unmapped(void)
{
    anonymous();
    munmap(host + bad, PAGE);
}

static void read_only(void)
{
    anonymous();
    mprotect(host + bad, PAGE, PROT_READ);
}

static void key(void)
{
    int number = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (number < 0)
        exit(77);
    anonymous();
    if (pkey_mprotect(host + bad, PAGE, PROT_READ | PROT_WRITE, number))
        exit(77);
}

/* Memory that may be read but not written. */
static void key_to_read(void)
{
    int number = pkey_alloc(0, PKEY_DISABLE_WRITE);
    if (number < 0)
        exit(77);
    anonymous();
    if (pkey_mprotect(host + bad, PAGE, PROT_READ | PROT_WRITE, number))
        exit(77);
}

/* Memory that only this thread may access, by a protection key that other threads lack. */
static void key_of_mine(void)
{
    int number = pkey_alloc(0, 0);
    if (number < 0)
        exit(77);
    anonymous();
    if (pkey_mprotect(host, size, PROT_READ | PROT_WRITE, number))
        exit(77);
}

/* A hole that the program's own handler fills, on the thread that faults. */
static void on_hole(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    const size_t at = (uintptr_t)info->si_addr - (uintptr_t)host;
    if (at / PAGE != bad / PAGE || syscall(SYS_gettid) != caller ||
        mprotect(host + bad, PAGE, PROT_READ | PROT_WRITE))
        _exit(51);
}

static void mended(void)
{
    struct sigaction action = {.sa_sigaction = on_hole, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    hole();
}

static void dropped(void)
{
    anonymous();
    madvise(host + bad, PAGE, MADV_DONTNEED);
}

/* Another thread of the program provides the pages one by one, by userfaultfd. */
static int user_fd;

static void serve(void *data)
{
    static unsigned char page[4096];
    struct uffd_msg message;
    (void)data;
    memset(page, 0x5b, sizeof page);
    while (read(user_fd, &message, sizeof message) == sizeof message) {
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(PAGE - 1),
                                   .src = (uintptr_t)page,
                                   .len = PAGE};
        kit_sleep_us(100);
        ioctl(user_fd, UFFDIO_COPY, &copy);
    }
}

static void served(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    host = kit_pageable(size);
    kit_fill(host, bad, 7);
    struct uffdio_register range = {.range = {(uintptr_t)host + bad, size - bad},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    user_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (user_fd < 0 || ioctl(user_fd, UFFDIO_API, &api) || ioctl(user_fd, UFFDIO_REGISTER, &range))
        exit(77);
    kit_thread(NULL, serve, NULL);
}

static const struct {
    const char *name;
    void (*make)(void);
} kinds[] = {
    {"truncated", truncated}, {"hole", hole},     {"unmapped", unmapped},
    {"read-only", read_only}, {"key", key},       {"key-of-mine", key_of_mine},
    {"dropped", dropped},     {"served", served}, {"key-to-read", key_to_read},
    {"mended", mended},
};

/* Copies until the library can stage copies. */
static void warm_up(CUdeviceptr device)
{
    unsigned char *plain = kit_huge(size);
    for (int i = 0; i < 4; i++) {
        MUST(cu.cuMemcpyHtoD_v2(device, plain, size));
        MUST(cu.cuMemcpyDtoH_v2(plain, device, size));
    }
    kit_await_ring();
    kit_fill(plain, size, 3);
    MUST(cu.cuMemcpyHtoD_v2(device, plain, size));
    munmap(plain, size);
}

/*
 * Copies on the thread's own stream while a blocking stream waits. Unlike the legacy stream, the
 * thread's own stream does not wait for it.
 */
static CUresult copy_on_own(bool to_host, CUdeviceptr device)
{
    CUstream blocking;
    uint32_t *flag = kit_pinned(64);
    MUST(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    kit_hold(blocking, flag);
    CUresult result = to_host ? cu.cuMemcpyDtoH_v2_ptds(host, device, size)
                              : cu.cuMemcpyHtoD_v2_ptds(device, host, size);
    kit_release(flag);
    return result;
}

static CUresult copy(const char *how, CUdeviceptr device, CUstream stream)
{
    if (strstr(how, "-own"))
        return copy_on_own(strcmp(how, "d2h-own") == 0, device);
    if (strcmp(how, "h2d") == 0)
        return cu.cuMemcpyHtoD_v2(device, host, size);
    if (strcmp(how, "d2h") == 0)
        return cu.cuMemcpyDtoH_v2(host, device, size);
    if (strcmp(how, "h2d-async") == 0)
        return cu.cuMemcpyHtoDAsync_v2(device, host, size, stream);
    return cu.cuMemcpyDtoHAsync_v2(host, device, size, stream);
}

static void show(const char *what, const unsigned char *bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i < size; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    }
    printf("%s has %016lx\n", what, (unsigned long)sum);
}

/* Prints hashes of the device's and the host's bytes, which show what has arrived. */
static void look(CUdeviceptr device)
{
    unsigned char *back = kit_huge(size);
    MUST(cu.cuMemcpyDtoH_v2(back, device, size));
    show("device", back);
    show("host", host);
}

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    if (argc < 5)
        return 2;
    setrlimit(RLIMIT_CORE, &none);
    kit_start();
    if (getenv("FAULTS_OLD_KERNEL"))
        kit_refuse("question");
    caller = (pid_t)syscall(SYS_gettid);
    size = strtoul(argv[4], NULL, 10) / PAGE * PAGE;
    bad = size / 100 * strtoul(argv[3], NULL, 10) / PAGE * PAGE;
    CUdeviceptr device = kit_device(size);
    CUstream stream = kit_stream();
    warm_up(device);
    if (argc > 5)
        kit_catch_signals(place);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            kinds[i].make();
    WANT(host);
    CUresult result = copy(argv[2], device, stream);
    printf("%s %s -> %d\n", argv[1], argv[2], (int)result);
    MUST(cu.cuCtxSynchronize());
    look(device);
    fflush(stdout);
    _exit(0);
}
