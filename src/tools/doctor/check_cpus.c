/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs, clocks, idle states. */
#include "base/clock.h"
#include "os/cgroup.h"
#include "os/procfs.h"
#include "tools/doctor/finding.h"

#include <stdlib.h>
#include <sys/prctl.h>

/*
 * CPUs for each GPU. With one CPU no copy is staged; with two or three CPUs only some copies are
 * staged (docs/transfers.md).
 */
#define CPUS_LEAST 2
#define CPUS_ALL 4

/*
 * Returns how many CPUs the process can use at the same time, by its mask and its quota. May be a
 * fraction, such as 0.5.
 */
static double count_cpus(const struct gf_check_input *input)
{
    const unsigned allowed = gf_set_count(gf_host_cpus(input));
    const double quota = gf_cgroup_quota(input->root);
    return quota > 0 && quota < allowed ? quota : allowed;
}

void gf_check_feeding(const struct gf_check_input *input, struct gf_findings *ret)
{
    const double cpus = count_cpus(input);
    /* A rank feeds one GPU; a program without a launcher feeds all visible GPUs. */
    const size_t visible = input->topo->visible.count;
    const size_t gpus = input->topo->facts.rank.local_size > 0 || !visible ? 1 : visible;
    const double each = cpus / (double)gpus;

    if (each >= CPUS_LEAST && !visible)
        return;
    if (gf_ok_if(ret, each >= CPUS_LEAST, "%.3g CPUs for each GPU%s", each,
                 each < CPUS_ALL
                     ? ": copies are staged only to the GPU, and only if they have 8 MiB or more"
                     : ""))
        return;
    if (cpus < CPUS_LEAST)
        gf_problem(ret, "%.3g CPU%s: copies will not be staged", cpus,
                   cpus > 0.99 && cpus < 1.01 ? "" : "s");
    else
        gf_problem(ret, "%.3g CPUs for %zu GPUs: for some GPUs, copies will not be staged", cpus,
                   gpus);
    gf_evidence(ret, "CPUs of the mask: %u; CPU quota: %.3g (0: none); GPUs: %zu",
                gf_set_count(gf_host_cpus(input)), gf_cgroup_quota(input->root), gpus);
    gf_fix(ret, "give each GPU at least %d CPUs, and one more for each DataLoader worker",
           CPUS_ALL);
}

/*
 * Returns the largest value of the variables in `names`, and the name of that variable. Returns 0
 * if no variable is set to a number.
 */
static unsigned long read_threads(const char **ret_name)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                        "OPENBLAS_NUM_THREADS"};
    unsigned long most = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        const char *text = getenv(names[i]);
        const unsigned long value = text ? strtoul(text, NULL, 10) : 0;
        if (value > most && value < 1UL << 20) {
            most = value;
            *ret_name = names[i];
        }
    }
    return most;
}

void gf_check_thread_counts(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_facts *facts = &input->topo->facts;
    const char *name = "OMP_NUM_THREADS";
    const unsigned long set = read_threads(&name);
    const double usable = count_cpus(input);
    const unsigned cpus = usable > 1 ? (unsigned)usable : 1;
    /* If the launcher did not narrow the mask, all ranks of this host share its CPUs. */
    const bool is_shared =
        gf_check_is_recorded(input) || gf_set_count(&facts->start) >= gf_set_count(&facts->cpuset);
    const unsigned ranks =
        facts->rank.local_size > 1 && is_shared ? (unsigned)facts->rank.local_size : 1;
    const unsigned long each = set ? set : cpus; /* OpenMP's default: all CPUs */

    if (!set && ranks == 1)
        return;
    if (gf_ok_if(ret, each * ranks <= cpus, "%lu OpenMP threads for %u CPUs", each * ranks, cpus))
        return;
    gf_problem(ret,
               ranks == 1 ? "%u rank%s with %lu OpenMP threads has %u CPU%s"
                          : "%u rank%s with %lu OpenMP threads each share %u CPU%s",
               ranks, ranks == 1 ? "" : "s", each, cpus, cpus == 1 ? "" : "s");
    if (set)
        gf_evidence(ret, "%s=%lu; ranks on this node: %u", name, set, ranks);
    else
        gf_evidence(ret, "%s is not set; ranks on this node: %u", name, ranks);
    gf_fix(ret, "set %s=%u", name, cpus / ranks ? cpus / ranks : 1);
}

/* The kernel moves no thread between isolated CPUs, so threads stay where they start. */
void gf_check_isolated_cpus(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char file[] = "sys/devices/system/cpu/isolated";
    const struct gf_cpus *cpus = gf_host_cpus(input);
    struct gf_cpus isolated = {0};

    if (gf_procfs_set(&isolated, input->root, file) || gf_set_empty(&isolated))
        return;
    const char *list = gf_set_text(&isolated, 128);
    if (gf_ok_if(ret, gf_set_count(cpus) < 2 || !gf_set_within(cpus, &isolated),
                 "CPUs %s are isolated; this process may use others", list))
        return;
    gf_problem(ret, "this process may use only isolated CPUs");
    gf_evidence(ret, "/%s: %s; this process may use %s", file, list, gf_set_text(cpus, 128));
    gf_fix(ret, "give the process other CPUs, or boot without isolcpus= for these and "
                "assign them by cpusets");
}

void gf_check_kubelet(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char file[] = "var/lib/kubelet/cpu_manager_state";
    char text[512]; /* policyName is the first member of the JSON object */

    if (gf_procfs_read(text, sizeof(text), input->root, "%s", file) <= 0)
        return; /* no node of Kubernetes, or a container that does not see the file */
    if (gf_ok_if(ret, strstr(text, "\"policyName\":\"static\""),
                 "the kubelet gives Guaranteed pods CPUs of their own"))
        return;
    if (!strstr(text, "\"policyName\":\"none\""))
        return;
    gf_problem(ret, "the kubelet lets all pods share all CPUs");
    gf_evidence(ret, "/%s: policyName none", file);
    gf_fix(ret,
           "in the kubelet's configuration: cpuManagerPolicy: static, "
           "reservedSystemCPUs: the CPUs of the system, topologyManagerPolicy: restricted; "
           "drain the node, remove /%s, and restart the kubelet",
           file);
}

/*
 * The most different settings that struct clocks holds. Only three settings keep the clock high, so
 * at least one setting that lowers the clock fits.
 */
#define SETTINGS_MAX 4
#define GF_GOVERNOR GF_CPUFREQ "scaling_governor"

struct setting {
    unsigned cpu; /* the first CPU with this setting */
    bool keeps_up;
    char governor[24], preference[32]; /* preference is "" for a governor that ignores it */
};

struct clocks {
    struct gf_cpus governed; /* CPUs with a governor */
    struct gf_cpus lowered;  /* governed CPUs that lower their clock when they idle */
    struct setting settings[SETTINGS_MAX];
    size_t count;
};

/* Returns false if the CPU has no governor, for example in a virtual machine. */
static bool read_setting(const struct gf_check_input *input, unsigned cpu, struct setting *ret)
{
    *ret = (struct setting){.cpu = cpu};
    if (!gf_host_line(input, ret->governor, sizeof(ret->governor), GF_GOVERNOR, cpu))
        return false;
    ret->keeps_up = strcmp(ret->governor, "performance") == 0;
    /*
     * If the CPU itself chooses its clock, the governor is "powersave", and only the energy
     * preference decides.
     */
    if (strcmp(ret->governor, "powersave") == 0 &&
        gf_host_line(input, ret->preference, sizeof(ret->preference),
                     GF_CPUFREQ "energy_performance_preference", cpu))
        ret->keeps_up =
            strcmp(ret->preference, "performance") == 0 || strcmp(ret->preference, "0") == 0;
    return true;
}

static void add_setting(struct clocks *clocks, const struct setting *setting,
                        const struct gf_cpus *cpus)
{
    gf_set_or(&clocks->governed, &clocks->governed, cpus);
    if (!setting->keeps_up)
        gf_set_or(&clocks->lowered, &clocks->lowered, cpus);
    for (size_t i = 0; i < clocks->count; i++)
        if (strcmp(clocks->settings[i].governor, setting->governor) == 0 &&
            strcmp(clocks->settings[i].preference, setting->preference) == 0)
            return;
    if (clocks->count < SETTINGS_MAX)
        clocks->settings[clocks->count++] = *setting;
}

/*
 * Reads the setting of each cpufreq policy from the files of the policy's first online CPU, because
 * a recording has no files of other CPUs.
 */
static void read_clocks(const struct gf_check_input *input, const struct gf_cpus *wanted,
                        struct clocks *ret)
{
    const struct gf_cpus *online = &input->topo->machine->online;
    struct gf_cpus seen = {0}, policy;
    struct setting setting;

    *ret = (struct clocks){0};
    for (int cpu = gf_set_next(online, 0); cpu >= 0; cpu = gf_set_next(online, (unsigned)cpu + 1)) {
        if (gf_set_test(&seen, (unsigned)cpu))
            continue;
        gf_cpufreq_policy(input->root, (unsigned)cpu, &policy);
        gf_set_or(&seen, &seen, &policy);
        gf_set_and(&policy, &policy, wanted);
        if (!gf_set_empty(&policy) && read_setting(input, (unsigned)cpu, &setting))
            add_setting(ret, &setting, &policy);
    }
}

/*
 * Sets *ret to the usable CPUs of the GPUs' nodes, and returns whether the machine has several nodes.
 * If a GPU's node is unknown or has no usable CPU, or no GPU is visible, sets *ret to all usable CPUs,
 * and returns false. All CPUs of a recorded machine count as usable.
 */
static bool find_cpus_near_gpus(const struct gf_check_input *input, struct gf_cpus *ret)
{
    const struct gf_topo *topo = input->topo;
    const bool is_recorded = gf_check_is_recorded(input);
    struct gf_cpus near = {0};

    *ret = is_recorded ? topo->machine->online : topo->facts.start;
    for (size_t i = 0; i < topo->gpu_count; i++) {
        const struct gf_topo_gpu *gpu = &topo->gpus[i];
        const struct gf_cpus *cpus = is_recorded ? &gpu->cpus : &gpu->usable;
        if (!gpu->visible)
            continue;
        if (!gpu->source || gf_set_empty(cpus))
            return false;
        gf_set_or(&near, &near, cpus);
    }
    if (gf_set_empty(&near))
        return false;
    *ret = near;
    return topo->machine->node_count > 1;
}

/*
 * Returns the settings whose keeps_up has the given value, such as "powersave, preference
 * balance_performance; schedutil". With `files`, names the files of the first CPU with each setting.
 */
static const char *join_settings(const struct clocks *clocks, bool keeps_up, bool files)
{
    const char *words = "";

    for (size_t i = 0; i < clocks->count; i++) {
        const struct setting *one = &clocks->settings[i];
        const char *file = files ? gf_text("/" GF_GOVERNOR ": ", one->cpu) : "";
        const char *separator = files ? ", energy_performance_preference: " : ", preference ";
        if (one->keeps_up == keeps_up)
            words = gf_text("%s%s%s%s%s%s", words, *words ? "; " : "", file, one->governor,
                            *one->preference ? separator : "", one->preference);
    }
    return words;
}

static void report_lowered(const struct clocks *clocks, bool near, struct gf_findings *ret)
{
    const unsigned count = gf_set_count(&clocks->lowered);
    const char *verb =
        count == 1 ? "lowers its clock when it idles" : "lower their clock when they idle";

    gf_problem(ret, "%u of %u CPUs%s %s (governor %.119s): %s", count,
               gf_set_count(&clocks->governed), near ? " near a GPU" : "", verb,
               join_settings(clocks, false, false), gf_set_text(&clocks->lowered, 32));
    gf_evidence(ret, "%s", join_settings(clocks, false, true));
    gf_command(ret, "cpupower frequency-set -g performance");
}

void gf_check_governor(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct clocks clocks;
    struct gf_cpus wanted;
    const bool near = find_cpus_near_gpus(input, &wanted);

    read_clocks(input, &wanted, &clocks);
    if (!clocks.count)
        return;
    if (gf_set_empty(&clocks.lowered))
        gf_ok(ret, "CPUs keep their clock high (governor %.159s)",
              join_settings(&clocks, true, false));
    else
        report_lowered(&clocks, near, ret);
}

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
    int32_t value;

    const int fd = gf_procfs_open_in(input->root, "/dev/cpu_dma_latency");
    if (fd < 0)
        return -1;
    if (read(fd, &value, sizeof(value)) != sizeof(value))
        value = -1;
    close(fd);
    return value;
}

/* Returns by how many microseconds a short sleep ends too late, as the median of several sleeps. */
static long measure_wake_up(void)
{
    double late[WAKE_UPS];

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the default slack of 50 us would dominate the result */
    for (size_t i = 0; i < WAKE_UPS; i++) {
        const uint64_t start = gf_now_ns();
        gf_sleep_ns(NAP_NS);
        late[i] = (double)(gf_now_ns() - start) - NAP_NS;
    }
    qsort(late, WAKE_UPS, sizeof(*late), gf_by_double);
    return (long)late[WAKE_UPS / 2] / 1000;
}

void gf_check_idle_states(const struct gf_check_input *input, struct gf_findings *ret)
{
    char name[32] = "";
    const char *measured = "";
    const int cpu = gf_set_next(gf_host_cpus(input), 0);
    const long deepest = cpu < 0 ? -1 : find_deepest(input, (unsigned)cpu, name, sizeof(name));
    const long limit = read_latency_limit(input);

    if (deepest < 0)
        return; /* no idle states, as in a virtual machine, where the hypervisor controls them */
    if (gf_ok_if(ret,
                 !gf_check_is_inference(input) || deepest <= WAKE_UP_MOST_US ||
                     (limit >= 0 && limit <= WAKE_UP_MOST_US),
                 "idle CPUs need at most %ld us to wake up (%s)",
                 limit >= 0 && limit < deepest ? limit : deepest, name))
        return;
    if (!gf_check_is_recorded(input))
        measured = gf_text("; measured wake-up latency: %ld us", measure_wake_up());
    gf_problem(ret, "idle CPUs need up to %ld us to wake up (%s)", deepest, name);
    gf_evidence(ret, "/sys/devices/system/cpu/cpu%d/cpuidle: %s: %ld us%s", cpu, name, deepest,
                measured);
    gf_command(ret, "cpupower idle-set -D %d", WAKE_UP_MOST_US);
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
    if (gf_ok_if(ret, (!has_boost || on) && (!has_turbo || !off), "CPUs may use their turbo clock"))
        return;
    const bool is_turbo = has_turbo && off;
    gf_problem(ret, "CPUs may not use their turbo clock");
    gf_evidence(ret, "/%s: %d", is_turbo ? turbo : boost, is_turbo);
    gf_command(ret, "echo %d > /%s", !is_turbo, is_turbo ? turbo : boost);
}
