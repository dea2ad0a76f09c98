/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs each section in a separate process, so that no section inherits the driver's state from
 * another one.
 */
#include "conform.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct driver cu;
void *driver_handle;
uint64_t work_ns = 300000000;
static const char *section;
static CUcontext main_context;

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"init", facts_init},           {"device", facts_device},   {"procaddr", facts_procaddr},
    {"context", facts_context},     {"hostmem", facts_hostmem}, {"register", facts_register},
    {"pointer", facts_pointer},     {"stream", facts_stream},   {"event", facts_event},
    {"copy", facts_copy},           {"order", facts_order},     {"busy", facts_busy},
    {"forbidden", facts_forbidden}, {"capture", facts_capture}, {"graph", facts_graph},
    {"value", facts_value},         {"fork", facts_fork},       {"trap", facts_trap},
    {"wild", facts_wild},
};

void row(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s.%s = ", section, name);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

void row_code(const char *name, CUresult result)
{
    row(name, "%d", (int)result);
}

void must(CUresult result, const char *what)
{
    if (result) {
        row("broken", "%s answered %d", what, (int)result);
        exit(1);
    }
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_ms(unsigned ms)
{
    usleep(ms * 1000);
}

CUcontext start(void)
{
    MUST(cu.cuInit(0));
    MUST(cu.cuDevicePrimaryCtxRetain(&main_context, 0));
    MUST(cu.cuCtxSetCurrent(main_context));
    return main_context;
}

CUfunction kernel(const char *name)
{
    static CUmodule module;
    CUfunction function;
    if (!module)
        MUST(cu.cuModuleLoadData(&module, KERNELS));
    MUST(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

void busy_kernel(CUstream stream)
{
    uint64_t ns = work_ns;
    void *params[] = {&ns};
    MUST(cu.cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void CUDA_CB fill_late(void *data)
{
    struct fill *fill = data;
    usleep(work_ns / 1000);
    if (fill->at)
        memset(fill->at, fill->value, fill->size);
    fill->done = true;
}

void busy_fill(CUstream stream, struct fill *fill, unsigned char *at, size_t size, int value)
{
    *fill = (struct fill){false, at, size, value};
    MUST(cu.cuLaunchHostFunc(stream, fill_late, fill));
}

const char *waited(uint64_t since)
{
    return now_ns() - since > work_ns / 2 ? "blocks" : "at once";
}

struct errand {
    void (*run)(void *);
    void *data;
};

static void *go(void *closure)
{
    struct errand *errand = closure;
    MUST(cu.cuCtxSetCurrent(main_context));
    errand->run(errand->data);
    return NULL;
}

void in_thread(void (*run)(void *), void *data)
{
    pthread_t thread;
    struct errand errand = {run, data};
    if (pthread_create(&thread, NULL, go, &errand) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void load(void)
{
    driver_handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver_handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(77);
    }
#define USE(name) cu.name = (__typeof__(name) *)dlsym(driver_handle, #name);
#include "functions.def"
#undef USE
}

static int run_section(size_t i)
{
    const char *ms = getenv("CONFORM_MS");
    if (ms)
        work_ns = strtoul(ms, NULL, 10) * 1000000;
    section = sections[i].name;
    load();
    sections[i].run();
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (argc > 1 && strcmp(argv[1], sections[i].name) == 0)
            return run_section(i);
        if (argc > 1)
            continue;
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            execl("/proc/self/exe", argv[0], sections[i].name, (char *)NULL);
        if (child < 0 || waitpid(child, &status, 0) != child || status) {
            printf("%s ended with %#x\n", sections[i].name, (unsigned)status);
            fflush(stdout);
            failed = WEXITSTATUS(status) == 77 ? 77 : 1;
        }
    }
    return argc > 1 ? 2 : failed;
}
