/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the idle states and turbo clocks of the CPUs. */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "os/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define IDLE_STATES_MAX 16
#define WAKE_UP_MOST_US 10 /* for inference */
#define WAKE_UPS 15        /* number of measured sleeps; odd, so that the median is one of them */
#define NAP_NS 200000

/*
 * Returns the exit latency in microseconds of the deepest enabled idle state, and the state's name;
 * -1 if unknown.
 */
static long find_deepest(const struct gf_check_input *input, unsigned cpu, char *name, size_t size)
{
    long deepest = -1, latency, disabled;

    for (unsigned i = 0; i < IDLE_STATES_MAX; i++) {
        const char *folder = "sys/devices/system/cpu";
        if (!gf_host_number(input, &latency, "%s/cpu%u/cpuidle/state%u/latency", folder, cpu, i))
            break;
        if (gf_host_number(input, &disabled, "%s/cpu%u/cpuidle/state%u/disable", folder, cpu, i) &&
            disabled)
            continue;
        if (latency > deepest) {
            deepest = latency;
            if (!gf_host_line(input, name, size, "%s/cpu%u/cpuidle/state%u/name", folder, cpu, i))
                snprintf(name, size, "state%u", i);
        }
    }
    return deepest;
}

/*
 * Returns the wake-up latency in microseconds to which processes have limited the CPUs
 * (/dev/cpu_dma_latency); -1 if unknown.
 */
static long read_latency_limit(const struct gf_check_input *input)
{
    char bytes[sizeof(int32_t) + 1];
    int32_t value;

    if (gf_procfs_read(bytes, sizeof(bytes), input->root, "dev/cpu_dma_latency") != sizeof(value))
        return -1;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static int compare_longs(const void *a, const void *b)
{
    const long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* Returns by how many microseconds a short sleep ends too late, as the median of several sleeps. */
static long measure_wake_up(void)
{
    const struct timespec nap = {0, NAP_NS};
    struct timespec from, to;
    long late[WAKE_UPS];

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the default slack of 50 us would dominate the result */
    for (size_t i = 0; i < WAKE_UPS; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        nanosleep(&nap, NULL);
        clock_gettime(CLOCK_MONOTONIC, &to);
        late[i] =
            ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec - NAP_NS) / 1000;
    }
    qsort(late, WAKE_UPS, sizeof(*late), compare_longs);
    return late[WAKE_UPS / 2];
}

void gf_check_idle_states(const struct gf_check_input *input, struct gf_findings *ret)
{
    char name[32] = "", measured[64] = "";
    const int cpu = gf_set_next(gf_host_cpus(input), 0);
    const long deepest = cpu < 0 ? -1 : find_deepest(input, (unsigned)cpu, name, sizeof(name));
    const long limit = read_latency_limit(input);

    if (deepest < 0)
        return; /* no idle states, as in a virtual machine, where the hypervisor controls them */
    if (!input->inference || deepest <= WAKE_UP_MOST_US ||
        (limit >= 0 && limit <= WAKE_UP_MOST_US)) {
        gf_finding_add(ret, gf_status_ok, "idle CPUs need at most %ld us to wake up (%s)",
                       limit >= 0 && limit < deepest ? limit : deepest, name);
        return;
    }
    if (!gf_check_is_recorded(input))
        snprintf(measured, sizeof(measured), "; measured wake-up latency: %ld us",
                 measure_wake_up());
    struct gf_finding *finding = gf_finding_add(
        ret, gf_status_problem, "idle CPUs need up to %ld us to wake up (%s)", deepest, name);
    gf_finding_evidence(finding, "/sys/devices/system/cpu/cpu%d/cpuidle: %s: %ld us%s", cpu, name,
                        deepest, measured);
    gf_finding_command(finding, "cpupower idle-set -D %d", WAKE_UP_MOST_US);
}

void gf_check_boost(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char boost[] = "sys/devices/system/cpu/cpufreq/boost";
    static const char turbo[] = "sys/devices/system/cpu/intel_pstate/no_turbo";
    long on, off;

    const bool has_boost = gf_host_number(input, &on, boost);
    const bool has_turbo = gf_host_number(input, &off, turbo);
    if (!has_boost && !has_turbo)
        return;
    if ((!has_boost || on) && (!has_turbo || !off)) {
        gf_finding_add(ret, gf_status_ok, "CPUs may use their turbo clock");
        return;
    }
    const bool is_turbo = has_turbo && off;
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem, "CPUs may not use their turbo clock");
    gf_finding_evidence(finding, "/%s: %d", is_turbo ? turbo : boost, is_turbo);
    gf_finding_command(finding, "echo %d > /%s", !is_turbo, is_turbo ? turbo : boost);
}
