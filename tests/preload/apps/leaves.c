/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaves WAY: makes a stall of the driver (SIM_DELAY), and then ends the process at once in this
 * way. The library's thread that writes the log cannot run in between: it is on the same CPU, and
 * wakes up only when no other thread is runnable.
 */
#include <cuda.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = 7 };

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static pid_t find_log_thread(void)
{
    pid_t found = 0;
    DIR *tasks = opendir("/proc/self/task");

    for (const struct dirent *task; !found && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof(name), file) && strcmp(name, "gpufeed-log\n") == 0)
            found = atoi(task->d_name);
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

static void hold_log_thread(void)
{
    const struct sched_param none = {0};
    cpu_set_t here;
    pid_t log;

    while (!(log = find_log_thread()))
        usleep(1000);
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    must(sched_setaffinity(0, sizeof(here), &here) == 0 &&
             sched_setaffinity(log, sizeof(here), &here) == 0 &&
             sched_setscheduler(log, SCHED_IDLE, &none) == 0,
         "the log's thread cannot be held");
}

static void leave_in_handler(int signal)
{
    (void)signal;
    _exit(CODE);
}

/* Prints the child's process ID, by which the test finds the child's system calls. */
static void leave_in_vfork(void)
{
    int status = 0;
    const pid_t child = vfork();

    if (child == 0)
        _exit(CODE);
    must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == CODE, "vfork");
    printf("%d\n", child);
}

static void leave(const char *way)
{
    if (strcmp(way, "_exit") == 0) {
        _exit(CODE);
    } else if (strcmp(way, "_Exit") == 0) {
        _Exit(CODE);
    } else if (strcmp(way, "quick_exit") == 0) {
        quick_exit(CODE);
    } else if (strcmp(way, "handler") == 0) {
        signal(SIGUSR1, leave_in_handler);
        raise(SIGUSR1);
    } else if (strcmp(way, "vfork") == 0) {
        leave_in_vfork();
    }
    exit(CODE);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr pointer = 0;

    must(argc == 2, "leaves WAY");
    must(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&pointer, 4096) == CUDA_SUCCESS,
         "CUDA");
    hold_log_thread();
    must(cuMemFree(pointer) == CUDA_SUCCESS, "cuMemFree");
    leave(argv[1]);
}
