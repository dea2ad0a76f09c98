/* SPDX-License-Identifier: Apache-2.0 */
/* Prevents, starves or stops the library's helper threads, and finds its ring. */
#include "kit.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };
#define HELPER "gpufeed-copy\n"

static unsigned find(const char *wanted, pid_t *ret)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) && count < MOST;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file) && strcmp(name, wanted) == 0)
            ret[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return count;
}

/*
 * Returns the stack pointer of the library's own thread, which creates the helpers, while that
 * thread sleeps. Returns 0 if it is unknown.
 */
static uint64_t makers_stack(void)
{
    pid_t makers[MOST];
    for (unsigned wait = 0; wait < 500; wait++, kit_sleep_us(10000)) {
        char path[64], line[256] = "";
        if (!find("gpufeed\n", makers))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)makers[0]);
        FILE *file = fopen(path, "re");
        /*
         * The stack pointer is the last but one field of the line, after the call's number and six
         * arguments.
         */
        uint64_t stack = 0;
        if (file && fgets(line, sizeof line, file))
            sscanf(line, "%*d %*s %*s %*s %*s %*s %*s %" SCNx64, &stack);
        if (file)
            fclose(file);
        if (stack)
            return stack;
    }
    return 0;
}

/* Refuses clone3 if its arguments are on the stack of the thread that creates the helpers. */
void kit_refuse_helpers(void)
{
    const uint64_t stack = makers_stack();
    const uint64_t first = stack - MIB, last = stack + MIB;
    if (!stack || first >> 32 != last >> 32)
        exit(77);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* seccomp_data.nr */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20), /* the upper half of the first argument */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(first >> 32), 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)last, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    kit_install_filter(code, sizeof code / sizeof code[0]);
}

bool kit_sleeps(pid_t tid)
{
    char path[64], line[512], *end;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    return !read || ((end = strrchr(line, ')')) && end[2] == 'S');
}

bool kit_others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool ret = true;
    for (const struct dirent *task; tasks && ret && (task = readdir(tasks));)
        ret = task->d_name[0] == '.' || atoi(task->d_name) == gettid() ||
              kit_sleeps(atoi(task->d_name));
    if (tasks)
        closedir(tasks);
    return ret;
}

unsigned kit_helpers(unsigned wanted)
{
    pid_t helpers[MOST];
    unsigned count;
    for (unsigned wait = 0; (count = find(HELPER, helpers)) < wanted && wait < 500; wait++)
        kit_sleep_us(10000);
    return count;
}

/*
 * Returns whether any private memory is registered. At that time the programs have not registered
 * memory themselves. Adjacent ranges are one mapping.
 */
static bool has_ring(void)
{
    char line[512], access[8];
    unsigned long from, to;
    unsigned flags;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) == 3 && strcmp(access, "rw-p") == 0 &&
            to - from >= MIB)
            for (; from < to && !found; from += 2 * MIB)
                found = cu.cuMemHostGetFlags(&flags, (void *)from) == CUDA_SUCCESS;
    if (maps)
        fclose(maps);
    return found;
}

void kit_await_ring(void)
{
    const size_t size = 16 * MIB;
    const CUdeviceptr device = kit_device(size);
    unsigned char *host = kit_huge(size);
    const bool comes =
        /* with GPUFEED_STAGE or GPUFEED=observe, the ring may be off */
        getenv("LD_PRELOAD") && !getenv("GPUFEED_STAGE") && !getenv("GPUFEED");
    for (unsigned i = 0; comes && i < 1000 && !has_ring(); i++) {
        MUST(cu.cuMemcpyDtoH_v2(host, device, size));
        kit_sleep_us(3000);
    }
    MUST(cu.cuMemFree_v2(device));
    munmap(host, size);
}

void kit_complete_ring(CUdeviceptr device, unsigned char *host, size_t bytes, CUstream stream)
{
    memset(host, 1, bytes);
    for (unsigned i = 0; i < 6; i++) {
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, bytes, stream));
        MUST(cu.cuStreamSynchronize(stream));
        kit_sleep_us(30000); /* the ring grows meanwhile */
    }
}

static void *hog(void *unused)
{
    (void)unused;
    for (;;)
        __asm__ volatile("");
    return NULL;
}

/* Gives the helpers the policy SCHED_IDLE, and keeps all CPUs busy with spinning threads. */
void kit_starve_helpers(void)
{
    pid_t helpers[MOST];
    static const struct sched_param none;
    pthread_t thread;
    for (unsigned i = find(HELPER, helpers); i-- > 0;)
        sched_setscheduler(helpers[i], SCHED_IDLE, &none);
    for (long cpus = sysconf(_SC_NPROCESSORS_ONLN); cpus > 0; cpus--)
        pthread_create(&thread, NULL, hog, NULL);
}

/* A child process stops the helpers by ptrace, and never lets them continue. */
void kit_stop_helpers(void)
{
    pid_t helpers[MOST];
    int ready[2], status;
    char answer = 'n';
    unsigned count = find(HELPER, helpers);
    /* The library would wait for a stopped helper that has a piece. */
    for (unsigned i = 0; i < count; i++)
        while (!kit_sleeps(helpers[i]))
            kit_sleep_us(1000);
    if (pipe(ready))
        exit(77);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (fork() == 0) {
        bool stopped = true;
        for (unsigned i = 0; i < count; i++)
            stopped = !ptrace(PTRACE_SEIZE, helpers[i], NULL, NULL) &&
                      !ptrace(PTRACE_INTERRUPT, helpers[i], NULL, NULL) && stopped;
        if (write(ready[1], stopped ? "y" : "n", 1) != 1)
            _exit(1);
        while (waitpid(-1, &status, __WALL) > 0) /* until the helpers end with their process */
            ;
        _exit(0);
    }
    if (read(ready[0], &answer, 1) != 1 || answer != 'y')
        exit(77);
}
