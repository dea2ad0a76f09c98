/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain program with one line for each step: steps [registering|sharing] [REFUSAL]. It copies and
 * uses pinned memory, or registers memory, or unmaps shared memory. It calls only a few driver
 * functions itself, so a fault in any other function hits a call of the library. REFUSAL names a
 * system call that fails for all threads, from a moment before the first copy. With STEPS_ASK, a
 * line says whether a copy has arrived when its call returns; on the simulated driver it has.
 */
#include "kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE (40 * MIB) /* large enough that the library serves pinned memory of this size */

/*
 * The call fails if the lower half of the argument, after the mask, equals the value. If `turned`
 * is set, it fails if they differ.
 */
static const struct refusal {
    const char *name;
    unsigned call, argument, mask, value;
    bool turned;
    int error;
} refusals[] = {
    {"populate-read", SYS_madvise, 2, ~0u, MADV_POPULATE_READ, false, EINVAL},
    {"populate-read-fault", SYS_madvise, 2, ~0u, MADV_POPULATE_READ, false, EFAULT},
    {"populate-write", SYS_madvise, 2, ~0u, MADV_POPULATE_WRITE, false, EINVAL},
    {"populate-write-memory", SYS_madvise, 2, ~0u, MADV_POPULATE_WRITE, false, ENOMEM},
    {"dontfork", SYS_madvise, 2, ~0u, MADV_DONTFORK, false, EINVAL},
    {"hugepage", SYS_madvise, 2, ~0u, MADV_HUGEPAGE, false, EINVAL},
    {"madvise", SYS_madvise, 0, 0, 0, false, ENOSYS},
    {"shared-map", SYS_mmap, 3, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, false,
     ENOMEM},
    {"reserve-map", SYS_mmap, 2, ~0u, PROT_NONE, false, ENOMEM},
    {"large-map", SYS_mmap, 1, 0x7fc00000, 0, true, ENOMEM}, /* mappings of 4 MiB and more */
    {"large-unmap", SYS_munmap, 1, 0x7fc00000, 0, true, ENOMEM},
    {"mbind", SYS_mbind, 0, 0, 0, false, EPERM},
    {"move-pages", SYS_move_pages, 0, 0, 0, false, EPERM},
    {"affinity", SYS_sched_setaffinity, 0, 0, 0, false, EPERM},
    {"policy", SYS_set_mempolicy, 0, 0, 0, false, ENOSYS},
    {"name", SYS_prctl, 0, ~0u, PR_SET_NAME, false, EPERM},
    {"threads", SYS_clone3, 0, 0, 0, false, EAGAIN},
    {"scheduling", SYS_sched_setscheduler, 0, 0, 0, false, EPERM},    /* for a new thread */
    {"question", SYS_ioctl, 1, 0xffff, 'f' << 8 | 17, false, ENOTTY}, /* PROCMAP_QUERY */
    {"read", SYS_read, 2, ~0u, 8191, false, EIO},                     /* of maps */
    {"read-own", SYS_process_vm_readv, 0, 0, 0, false, EPERM},
    {"write-own", SYS_process_vm_writev, 0, 0, 0, false, EPERM},
    {"mincore", SYS_mincore, 0, 0, 0, false, ENOMEM},
    {"mremap", SYS_mremap, 0, 0, 0, false, ENOMEM},
    {"munlock", SYS_munlock, 0, 0, 0, false, EPERM},
    {"statfs", SYS_statfs, 0, 0, 0, false, ENOSYS},
    {"limits", SYS_prlimit64, 0, 0, 0, false, EPERM},
    {"duplicate", SYS_fcntl, 2, ~0u, 960, false, EMFILE}, /* of maps, to a high number */
    {"dontneed", SYS_madvise, 2, ~0u, MADV_DONTNEED, false, EINVAL},
    {"willneed", SYS_madvise, 2, ~0u, MADV_WILLNEED, false, EINVAL},
    {"io-priority", SYS_ioprio_get, 0, 0, 0, false, EPERM},
    {"set-io-priority", SYS_ioprio_set, 0, 0, 0, false, EPERM},
};

static void refuse(const char *name)
{
    const struct refusal *r = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strcmp(refusals[i].name, name) == 0)
            r = &refusals[i];
    if (!r)
        exit(2);
    const unsigned at = 16 + 8 * r->argument; /* seccomp_data.args; the lower half comes first */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, r->turned, !r->turned),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)r->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
        exit(77);
}

static uint64_t sum(const unsigned char *at, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

static void say(const char *what, CUresult code, const unsigned char *bytes, size_t size)
{
    printf("%s -> %d %016lx\n", what, (int)code, bytes ? (unsigned long)sum(bytes, size) : 0);
    fflush(stdout);
}

static bool is_asleep(const char *task)
{
    char path[300], line[512], *end;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task);
    FILE *file = fopen(path, "r");
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    return !read || ((end = strrchr(line, ')')) && end[2] == 'S');
}

static bool all_others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool ret = true;
    for (const struct dirent *task; ret && (task = readdir(tasks));)
        ret = task->d_name[0] == '.' || atoi(task->d_name) == gettid() || is_asleep(task->d_name);
    closedir(tasks);
    return ret;
}

/*
 * Waits until all other threads sleep. Background work has then ended or failed, because a thread
 * that waits for another one wakes it first.
 */
static void settle(void)
{
    for (unsigned ms = 0, quiet = 0; quiet < 2 && ms < 5000; ms++) {
        usleep(1000);
        quiet = all_others_sleep() ? quiet + 1 : 0;
    }
}

static CUstream apart;

/*
 * Copies back on a stream that does not wait for others. This shows which bytes had arrived when
 * the call of the copy to the device returned.
 */
static void copies(CUdeviceptr device, unsigned char *host, unsigned char *back, unsigned round)
{
    const size_t size = SIZE - 3 * 4096 * round - round;
    kit_fill(host, SIZE, round);
    CUresult result = cu.cuMemcpyHtoD_v2(device, host, size);
    if (getenv("STEPS_ASK"))
        say("arrived", cu.cuStreamQuery(CU_STREAM_LEGACY), NULL, 0);
    memset(host, (int)round, SIZE);
    say("h2d", result, NULL, 0);
    memset(back, 0, SIZE);
    result = round & 1 ? cu.cuMemcpyDtoHAsync_v2(back, device, size, apart)
                       : cu.cuMemcpyDtoH_v2(back, device, size);
    say("d2h", result, back, SIZE);
}

static void pinned(CUdeviceptr device, size_t size)
{
    void *block = NULL;
    CUresult result = cu.cuMemHostAlloc(&block, size, 0);
    say("host alloc", result, block, 0);
    if (result)
        return;
    kit_fill(block, size, (unsigned)size);
    say("h2d pinned", cu.cuMemcpyHtoD_v2(device, block, size), NULL, 0);
    memset(block, 0, size);
    result = cu.cuMemcpyDtoH_v2(block, device, size);
    say("d2h pinned", result, block, size);
    say("host free", cu.cuMemFreeHost(block), NULL, 0);
}

/*
 * Registers memory of which most pages are absent, so that prefaulting saves time. The present
 * pages stay.
 */
static void registered(CUdeviceptr device)
{
    unsigned char *own = kit_pageable(SIZE);
    kit_fill(own + SIZE / 2, SIZE / 8, 5);
    say("register", cu.cuMemHostRegister_v2(own, SIZE, 0), own, SIZE);
    say("h2d registered", cu.cuMemcpyHtoD_v2(device, own, SIZE), NULL, 0);
    memset(own, 0, SIZE);
    CUresult result = cu.cuMemcpyDtoH_v2(own, device, SIZE);
    say("d2h registered", result, own, SIZE);
    say("unregister", cu.cuMemHostUnregister(own), own, SIZE);
    munmap(own, SIZE);
}

/*
 * Copies from shared memory, as DataLoader passes batches. No other process has the file, and the
 * program unmaps it after the copy.
 */
static void shared(CUdeviceptr device, unsigned char *back)
{
    char name[64];
    snprintf(name, sizeof name, "/gpufeed-steps-%d", (int)getpid());
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || shm_unlink(name) || ftruncate(fd, SIZE))
        exit(77);
    unsigned char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        say("no memory", CUDA_SUCCESS, NULL, 0);
        return;
    }
    kit_fill(at, SIZE, 11);
    say("h2d shared", cu.cuMemcpyHtoD_v2(device, at, SIZE), NULL, 0);
    say("unmap", (CUresult)-munmap(at, SIZE), NULL, 0);
    CUresult result = cu.cuMemcpyDtoH_v2(back, device, SIZE);
    say("d2h", result, back, SIZE);
}

int main(int argc, char **argv)
{
    const bool registering = argc > 1 && strcmp(argv[1], "registering") == 0;
    const bool sharing = argc > 1 && strcmp(argv[1], "sharing") == 0;
    const int named = 1 + (registering || sharing);
    kit_start();
    CUdeviceptr device = kit_device(SIZE);
    unsigned char *host = kit_pageable(SIZE), *back = kit_pageable(SIZE);
    kit_fill(back, SIZE, 1);
    apart = kit_stream();
    MUST(cu.cuMemcpyHtoD_v2(device, back, 64));
    MUST(cu.cuMemsetD8Async(kit_device(64), 1, 64,
                            /* the driver's threads exist, and the program does not wait for them */
                            apart));
    if (argc > named)
        refuse(argv[named]);
    for (unsigned round = 0; registering && round < 3; round++) {
        registered(device);
        settle();
    }
    for (unsigned round = 0; sharing && round < 4; round++) {
        shared(device, back);
        settle();
    }
    for (unsigned round = 0; named == 1 && round < 6; round++) {
        copies(device, host, back, round);
        settle();
        pinned(device, round & 1 ? SIZE : 4096 * (1 + round) + 5);
        settle();
    }
    puts("done");
    return 0;
}
