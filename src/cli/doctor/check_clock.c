/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the CPUs near a GPU keep their clock high when they idle. Their governors and
 * energy preferences decide this.
 */
#include "cli/doctor/checks.h"

#include "cli/topo/cpufreq.h"

#include <stdio.h>
#include <string.h>

/*
 * The most different settings that struct clocks holds. Only three settings keep the clock high, so
 * at least one setting that lowers the clock fits.
 */
#define SETTINGS_MAX 4

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
    bool is_sample; /* true: the machine is an early recording, which has only CPU 0's setting */
};

/* Reads the first line of a file. Returns false if the file is missing or the line is empty. */
static bool read_first_word(const char *root, unsigned cpu, enum gf_cpufreq_file file, char *ret,
                            size_t size)
{
    if (gf_cpufreq_read(root, cpu, file, ret, size) <= 0)
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return *ret != '\0';
}

/* Returns false if the CPU has no governor, for example in a virtual machine. */
static bool read_setting(const char *root, unsigned cpu, struct setting *ret)
{
    *ret = (struct setting){.cpu = cpu};
    if (!read_first_word(root, cpu, gf_cpufreq_governor, ret->governor, sizeof(ret->governor)))
        return false;
    ret->keeps_up = strcmp(ret->governor, "performance") == 0;
    /*
     * If the CPU itself chooses its clock, the governor is "powersave", and only the energy
     * preference decides.
     */
    if (strcmp(ret->governor, "powersave") == 0 &&
        read_first_word(root, cpu, gf_cpufreq_preference, ret->preference, sizeof(ret->preference)))
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
        if (!gf_set_empty(&policy) && read_setting(input->root, (unsigned)cpu, &setting))
            add_setting(ret, &setting, &policy);
    }
}

/*
 * Reads the setting of CPU 0 from an early recording, which has no files of other CPUs and no list
 * of a policy's CPUs. Returns false if the machine is not such a recording.
 */
static bool read_early_recording(const struct gf_check_input *input, struct clocks *ret)
{
    struct setting setting;
    struct gf_cpus first = {0};
    char text[8];

    *ret = (struct clocks){.is_sample = true};
    if (!gf_check_is_recorded(input) ||
        gf_cpufreq_read(input->root, 0, gf_cpufreq_affected, text, sizeof(text)) >= 0 ||
        !read_setting(input->root, 0, &setting))
        return false;
    gf_set_add(&first, 0);
    add_setting(ret, &setting, &first);
    return true;
}

/*
 * Sets *ret to the CPUs that the process may use on the nodes of its GPUs. Returns true if the
 * machine has several nodes. If no GPU is visible, a GPU's node is unknown, or the process may use
 * no CPU of that node, sets *ret to all CPUs that the process may use, and returns false. A
 * recording may lack the process's mask, so all CPUs of a recorded machine count as usable.
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
 * Writes the settings whose keeps_up has the given value, such as "powersave, preference
 * balance_performance; schedutil".
 */
static const char *join_settings(const struct clocks *clocks, bool keeps_up, char *ret, size_t size)
{
    size_t at = 0;

    *ret = '\0';
    for (size_t i = 0; i < clocks->count && at < size; i++) {
        const struct setting *one = &clocks->settings[i];
        if (one->keeps_up == keeps_up)
            at += (size_t)snprintf(ret + at, size - at, "%s%s%s%s", at ? "; " : "", one->governor,
                                   *one->preference ? ", preference " : "", one->preference);
    }
    return ret;
}

/*
 * Sets the evidence: for each setting that lowers the clock, the files of the first CPU with this
 * setting.
 */
static void set_evidence(const struct clocks *clocks, struct gf_finding *finding)
{
    char text[sizeof(finding->evidence)] = "", path[128];
    size_t at = 0;

    for (size_t i = 0; i < clocks->count && at < sizeof(text); i++) {
        const struct setting *one = &clocks->settings[i];
        if (one->keeps_up)
            continue;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s/%s: %s", at ? "; " : "",
                               gf_cpufreq_path(one->cpu, gf_cpufreq_governor, path, sizeof(path)),
                               one->governor);
        if (*one->preference && at < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at,
                                   ", energy_performance_preference: %s", one->preference);
    }
    gf_finding_evidence(finding, "%s", text);
}

static struct gf_finding *report_lowered(const struct clocks *clocks, bool near,
                                         struct gf_findings *ret)
{
    char settings[120], some[32];
    const unsigned count = gf_set_count(&clocks->lowered);
    const char *verb =
        count == 1 ? "lowers its clock when it idles" : "lower their clock when they idle";

    join_settings(clocks, false, settings, sizeof(settings));
    if (clocks->is_sample)
        return gf_finding_add(ret, gf_status_problem,
                              "CPUs lower their clock when they idle (governor %s)", settings);
    return gf_finding_add(ret, gf_status_problem, "%u of %u CPUs%s %s (governor %s): %s", count,
                          gf_set_count(&clocks->governed), near ? " near a GPU" : "", verb,
                          settings, gf_set_format(&clocks->lowered, some, sizeof(some)));
}

void gf_check_governor(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct clocks clocks;
    struct gf_cpus wanted;
    char settings[160];
    const bool near = find_cpus_near_gpus(input, &wanted);

    if (!read_early_recording(input, &clocks))
        read_clocks(input, &wanted, &clocks);
    if (!clocks.count)
        return;
    if (gf_set_empty(&clocks.lowered)) {
        gf_finding_add(ret, gf_status_ok, "CPUs keep their clock high (governor %s)",
                       join_settings(&clocks, true, settings, sizeof(settings)));
        return;
    }
    struct gf_finding *finding = report_lowered(&clocks, near, ret);
    set_evidence(&clocks, finding);
    gf_finding_command(finding, "cpupower frequency-set -g performance");
}
