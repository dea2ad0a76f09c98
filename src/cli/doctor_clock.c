/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the CPUs that feed a GPU keep their clock up: the governor of each, and what it is told to prefer. */
#include "cli/doctor.h"

#include "host/machine.h"
#include "host/sysfile.h"

#include <stdio.h>
#include <string.h>

/* CPUs of one policy share them. */
#define FILE_OF_CPU "sys/devices/system/cpu/cpu%u/cpufreq/%s"
enum file { f_governor, f_preference, f_affected };
static const char *const files[] = {
    [f_governor] = "scaling_governor",
    [f_preference] = "energy_performance_preference",
    [f_affected] = "affected_cpus", /* the policy's that are online */
};

/* That are told apart in the text. Three keep the clock up: one that does not always finds room. */
#define SETTINGS_MAX 4

struct setting {
    unsigned cpu; /* the first that has it */
    bool keeps_up;
    char governor[24], preference[32]; /* "" for a governor that heeds none */
};

struct clocks {
    struct gf_cpus told;    /* that have a governor */
    struct gf_cpus lowered; /* of them, whose clock falls when they idle */
    struct setting settings[SETTINGS_MAX];
    size_t count;
    bool by_one; /* an early recording's first CPU stands for all */
};

static int read_file(const char *root, unsigned cpu, enum file file, char *ret, size_t size)
{
    return gf_sysfile_read(ret, size, root, FILE_OF_CPU, cpu, files[file]);
}

/* False: no such file, or its first line is empty. */
static bool read_word(const char *root, unsigned cpu, enum file file, char *ret, size_t size)
{
    if (read_file(root, cpu, file, ret, size) <= 0)
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return *ret != '\0';
}

/* False where the CPU has none, as in a virtual machine. */
static bool read_setting(const char *root, unsigned cpu, struct setting *ret)
{
    *ret = (struct setting){.cpu = cpu};
    if (!read_word(root, cpu, f_governor, ret->governor, sizeof(ret->governor)))
        return false;
    ret->keeps_up = strcmp(ret->governor, "performance") == 0;
    /* Drivers that let the CPU choose have the governor "powersave" whatever it is told to prefer. */
    if (strcmp(ret->governor, "powersave") == 0 &&
        read_word(root, cpu, f_preference, ret->preference, sizeof(ret->preference)))
        ret->keeps_up = strcmp(ret->preference, "performance") == 0 || strcmp(ret->preference, "0") == 0;
    return true;
}

/* The CPUs whose files are this one's, itself at least. The kernel writes "0 1 2", no list. */
static void read_policy(const char *root, unsigned cpu, struct gf_cpus *ret)
{
    char text[8192];

    *ret = (struct gf_cpus){0};
    if (read_file(root, cpu, f_affected, text, sizeof(text)) > 0) {
        for (char *space = text; (space = strchr(space, ' '));)
            *space = ',';
        gf_set_parse(text, ret);
    }
    gf_set_add(ret, cpu);
}

static void note(struct clocks *clocks, const struct setting *setting, const struct gf_cpus *cpus)
{
    gf_set_or(&clocks->told, &clocks->told, cpus);
    if (!setting->keeps_up)
        gf_set_or(&clocks->lowered, &clocks->lowered, cpus);
    for (size_t i = 0; i < clocks->count; i++)
        if (strcmp(clocks->settings[i].governor, setting->governor) == 0 &&
            strcmp(clocks->settings[i].preference, setting->preference) == 0)
            return;
    if (clocks->count < SETTINGS_MAX)
        clocks->settings[clocks->count++] = *setting;
}

/* Each policy is read once, by its first CPU that is online: others of it are not recorded. */
static void read_clocks(const struct gf_patient *patient, const struct gf_cpus *wanted, struct clocks *ret)
{
    const struct gf_cpus *online = &patient->topo->machine->online;
    struct gf_cpus seen = {0}, policy;
    struct setting setting;

    *ret = (struct clocks){0};
    for (int cpu = gf_set_next(online, 0); cpu >= 0; cpu = gf_set_next(online, (unsigned)cpu + 1)) {
        if (gf_set_test(&seen, (unsigned)cpu))
            continue;
        read_policy(patient->root, (unsigned)cpu, &policy);
        gf_set_or(&seen, &seen, &policy);
        gf_set_and(&policy, &policy, wanted);
        if (!gf_set_empty(&policy) && read_setting(patient->root, (unsigned)cpu, &setting))
            note(ret, &setting, &policy);
    }
}

/* Recordings were once of CPU 0 alone, and without the CPUs of its policy. */
static bool read_early_recording(const struct gf_patient *patient, struct clocks *ret)
{
    struct setting setting;
    struct gf_cpus first = {0};
    char text[8];

    *ret = (struct clocks){.by_one = true};
    if (!gf_patient_is_recorded(patient) || read_file(patient->root, 0, f_affected, text, sizeof(text)) >= 0 ||
        !read_setting(patient->root, 0, &setting))
        return false;
    gf_set_add(&first, 0);
    note(ret, &setting, &first);
    return true;
}

/*
 * The CPUs that may be used on the nodes of the GPUs; where a GPU's node is unknown or has none of them, all that may be
 * used, and the result is false. What a process may use is not recorded: of a recorded machine these are all CPUs.
 */
static bool near_gpus(const struct gf_patient *patient, struct gf_cpus *ret)
{
    const struct gf_topo *topo = patient->topo;
    const bool is_recorded = gf_patient_is_recorded(patient);
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

/* "powersave, preference balance_performance; schedutil" */
static const char *join(const struct clocks *clocks, bool keeps_up, char *ret, size_t size)
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

/* Of each setting that lowers a clock the files of the first CPU that has it. */
static void advise_read_files(const struct clocks *clocks, struct gf_advice *advice)
{
    char text[sizeof(advice->read)] = "";
    size_t at = 0;

    for (size_t i = 0; i < clocks->count && at < sizeof(text); i++) {
        const struct setting *one = &clocks->settings[i];
        if (one->keeps_up)
            continue;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s/" FILE_OF_CPU ": %s", at ? "; " : "", one->cpu,
                               files[f_governor], one->governor);
        if (*one->preference && at < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at, ", %s: %s", files[f_preference], one->preference);
    }
    gf_advise_read(advice, "%s", text);
}

static struct gf_advice *advise_lowered(const struct clocks *clocks, bool near, struct gf_advices *ret)
{
    char settings[120], few[32];
    const unsigned count = gf_set_count(&clocks->lowered);
    const char *do_so = count == 1 ? "lowers its clock when it idles" : "lower their clock when they idle";

    join(clocks, false, settings, sizeof(settings));
    if (clocks->by_one)
        return gf_advise(ret, gf_health_mend, "CPUs lower their clock when they idle (governor %s)", settings);
    return gf_advise(ret, gf_health_mend, "%u of %u CPUs%s %s (governor %s): %s", count, gf_set_count(&clocks->told),
                     near ? " near a GPU" : "", do_so, settings, gf_set_format(&clocks->lowered, few, sizeof(few)));
}

void gf_check_governor(const struct gf_patient *patient, struct gf_advices *ret)
{
    struct clocks clocks;
    struct gf_cpus wanted;
    char settings[160];
    const bool near = near_gpus(patient, &wanted);

    if (!read_early_recording(patient, &clocks))
        read_clocks(patient, &wanted, &clocks);
    if (!clocks.count)
        return;
    if (gf_set_empty(&clocks.lowered)) {
        gf_advise(ret, gf_health_fine, "CPUs keep their clock up (governor %s)",
                  join(&clocks, true, settings, sizeof(settings)));
        return;
    }
    struct gf_advice *advice = advise_lowered(&clocks, near, ret);
    advise_read_files(&clocks, advice);
    gf_advise_mend(advice, "threads that feed a GPU sleep and wake for each batch, and begin each with a slow CPU",
                   "cpupower frequency-set -g performance    (root, on the host)");
}

int gf_doctor_record_clocks(const char *folder)
{
    struct gf_cpus online = {0}, seen = {0}, policy;
    char name[128];
    int error = 0;

    gf_sysfile_cpus(&online, "", "sys/devices/system/cpu/online");
    for (int cpu = gf_set_next(&online, 0); cpu >= 0; cpu = gf_set_next(&online, (unsigned)cpu + 1)) {
        if (gf_set_test(&seen, (unsigned)cpu))
            continue;
        read_policy("", (unsigned)cpu, &policy);
        gf_set_or(&seen, &seen, &policy);
        for (size_t i = 0; i < GF_ARRAY_LEN(files) && !error; i++) {
            snprintf(name, sizeof(name), FILE_OF_CPU, (unsigned)cpu, files[i]);
            error = gf_machine_record_file(folder, name);
        }
    }
    return error;
}
