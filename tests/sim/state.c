/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the process may call the driver: cuInit has succeeded, and the process is not a
 * forked child.
 */
#include "sim.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_done = PTHREAD_COND_INITIALIZER;

static CUresult init_result = CUDA_ERROR_NOT_INITIALIZED;
static pid_t init_pid;
static uint64_t last_id;

/* Returns false for the functions that work before cuInit and in forked children. */
static bool needs_init(const char *name)
{
    static const char *const free_entries[] = {
        "cuInit",         "cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2",
        "cuGetErrorName", "cuGetErrorString",   "cuGetExportTable", NULL,
    };
    for (int i = 0; free_entries[i]; i++)
        if (strcmp(name, free_entries[i]) == 0)
            return false;
    return true;
}

/* Whether a function only reports a state. NVIDIA's driver may change errno in any function. */
static bool is_query(const char *name)
{
    static const char *const words[] = {"Get", "Query", "IsCapturing"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

CUresult sim_enter(const char *name)
{
    if (sim_config.error && is_query(name))
        errno = sim_config.error;
    CUresult fault = sim_fault(name);
    if (fault)
        return fault;
    if (!needs_init(name))
        return CUDA_SUCCESS;
    CUresult result = __atomic_load_n(&init_result, __ATOMIC_ACQUIRE);
    if (result)
        return CUDA_ERROR_NOT_INITIALIZED;
    return init_pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int sim_hold_cancel(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void sim_leave(const int *cancel)
{
    pthread_setcancelstate(*cancel, NULL);
}

uint64_t sim_next_id(void)
{
    return ++last_id;
}

uint64_t sim_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static void *stay(void *begun)
{
    __atomic_store_n((bool *)begun, true, __ATOMIC_RELEASE);
    for (;;)
        pause();
    return NULL;
}

/*
 * Starts a thread, and returns when it runs. By then a preloaded library has done its work for a
 * new thread.
 */
void sim_start_thread(const char *name)
{
    pthread_t thread;
    bool begun = false;
    if (pthread_create(&thread, NULL, stay, &begun) == 0) {
        pthread_setname_np(thread, name);
        pthread_detach(thread);
        while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
            sched_yield(); /* not a cancellation point */
    }
}

/*
 * Runs in a forked child, where the thread that held the lock does not exist. Every call is refused
 * there.
 */
static void free_the_child(void)
{
    pthread_mutex_init(&sim_lock, NULL);
}

__attribute__((constructor)) static void prepare_forks(void)
{
    pthread_atfork(NULL, NULL, free_the_child);
}

CUresult cuInit(unsigned flags)
{
    SIM_ENTER("cuInit");
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    /* This is checked before taking the lock, which a thread of the parent may have held. */
    const pid_t owner = __atomic_load_n(&init_pid, __ATOMIC_ACQUIRE);
    if (owner && owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&sim_lock);
    bool first = !init_pid;
    if (first) {
        __atomic_store_n(&init_pid, getpid(), __ATOMIC_RELEASE);
        sim_config_read();
        sim_devices_make();
        sim_files_open();
        __atomic_store_n(&init_result, sim_device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE,
                         __ATOMIC_RELEASE);
    }
    CUresult result = init_result;
    pthread_mutex_unlock(&sim_lock);
    /* outside the lock, because a preloaded pthread_create may call anything */
    if (first && !result)
        sim_start_thread("cuda00001400006");
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    SIM_ENTER("cuDriverGetVersion");
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}
