/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planned faults and delays. SIM_FAULT="cuMemAlloc_v2:3:2,kernel:1:700": the third call of the
 * function returns 2, and the first kernel breaks its context with error 700. "3+" means the third
 * and all later ones. SIM_DELAY="cuMemHostAlloc:5000,dma:200": microseconds added to each call or
 * transfer. Three names are not functions: kernel, dma and hostfunc mean the work itself, on the
 * stream's thread. SIM_CALLED=FILE: the names of SIM_FAULT that were called, one a line, at exit.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    char name[64];
    unsigned long at; /* number of the failing call, from 1; or the delay in microseconds */
    bool on;          /* all later calls fail, too */
    int code;
    unsigned long calls;
};

static struct plan faults[64], delays[32];
static int fault_count, delay_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int read_plans(const char *text, struct plan *plan, int max)
{
    int count = 0;
    while (text && *text && count < max) {
        struct plan *p = &plan[count];
        size_t name = strcspn(text, ":,");
        snprintf(p->name, sizeof p->name, "%.*s", (int)name, text);
        text += name;
        if (*text == ':') {
            char *end;
            p->at = strtoul(text + 1, &end, 0);
            p->on = *end == '+';
            text = end + p->on;
        }
        if (*text == ':') {
            char *end;
            p->code = (int)strtol(text + 1, &end, 0);
            text = end;
        }
        count++;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return count;
}

static void read_environment(void)
{
    fault_count = read_plans(getenv("SIM_FAULT"), faults, 64);
    delay_count = read_plans(getenv("SIM_DELAY"), delays, 32);
}

static void __attribute__((destructor)) list_called(void)
{
    FILE *file = getenv("SIM_CALLED") ? fopen(getenv("SIM_CALLED"), "w") : NULL;
    for (int i = 0; file && i < fault_count; i++)
        if (faults[i].calls)
            fprintf(file, "%s\n", faults[i].name);
    if (file)
        fclose(file);
}

CUresult sim_fault(const char *name)
{
    pthread_once(&once, read_environment);
    for (int i = 0; i < delay_count; i++)
        if (strcmp(delays[i].name, name) == 0)
            sim_sleep_ns(delays[i].at * 1000);
    for (int i = 0; i < fault_count; i++) {
        if (strcmp(faults[i].name, name) != 0)
            continue;
        unsigned long call = __atomic_add_fetch(&faults[i].calls, 1, __ATOMIC_RELAXED);
        if (call == faults[i].at || (faults[i].on && call > faults[i].at))
            return (CUresult)faults[i].code;
    }
    return CUDA_SUCCESS;
}
