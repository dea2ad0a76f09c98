/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether there are enough CPUs for the GPUs, and whether there are more threads than CPUs.
 */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "os/cgroup.h"
#include "os/launch.h"

#include <stdlib.h>

/*
 * CPUs for each GPU. With one CPU no copy is staged; with two or three CPUs only some copies are
 * staged (docs/transfers.md).
 */
#define CPUS_LEAST 2
#define CPUS_ALL 4

/*
 * Returns the number of CPUs that the process can use at the same time, by its mask and its quota.
 */
static unsigned count_cpus(const struct gf_check_input *input)
{
    const unsigned allowed = gf_set_count(gf_host_cpus(input));
    const double quota = gf_cgroup_quota(input->root);
    return quota > 0 && quota < allowed ? (unsigned)quota : allowed;
}

void gf_check_feeding(const struct gf_check_input *input, struct gf_findings *ret)
{
    const unsigned cpus = count_cpus(input);
    /* A rank feeds one GPU; a program without a launcher feeds all visible GPUs. */
    const size_t visible = input->topo->visible.count;
    const size_t gpus = input->topo->facts.rank.local_size > 0 || !visible ? 1 : visible;
    const double each = (double)cpus / (double)gpus;

    if (each >= CPUS_LEAST) {
        gf_finding_add(
            ret, gf_status_ok, "%.3g CPUs for each GPU%s", each,
            each < CPUS_ALL
                ? ": copies are staged only to the GPU, and only if they have 8 MiB or more"
                : "");
        return;
    }
    struct gf_finding *finding =
        cpus < CPUS_LEAST
            ? gf_finding_add(ret, gf_status_problem, "%u CPU%s: copies will not be staged", cpus,
                             cpus == 1 ? "" : "s")
            : gf_finding_add(ret, gf_status_problem,
                             "%u CPUs for %zu GPUs: copies will not be staged on some of them",
                             cpus, gpus);
    gf_finding_evidence(finding, "CPUs of the mask: %u; CPU quota: %.3g (0: none); GPUs: %zu",
                        gf_set_count(gf_host_cpus(input)), gf_cgroup_quota(input->root), gpus);
    gf_finding_fix(finding,
                   "give each GPU at least %d CPUs, and one more for each DataLoader worker",
                   CPUS_ALL);
}

/*
 * Returns the largest value of the variables in `names`, and the name of that variable. Returns 0
 * if no variable is set to a number.
 */
static unsigned long read_threads(const struct gf_check_input *input, const char **ret_name)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                        "OPENBLAS_NUM_THREADS"};
    unsigned long most = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        const char *text = gf_launch_variable(input->envp, names[i]);
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
    const unsigned long set = read_threads(input, &name);
    const unsigned cpus = count_cpus(input);
    /* If the launcher did not narrow the mask, all ranks of this host share its CPUs. */
    const bool is_shared =
        gf_check_is_recorded(input) || gf_set_count(&facts->start) >= gf_set_count(&facts->cpuset);
    const unsigned ranks =
        facts->rank.local_size > 1 && is_shared ? (unsigned)facts->rank.local_size : 1;
    const unsigned long each = set ? set : cpus; /* OpenMP's default: all CPUs */

    if (!set && ranks == 1)
        return;
    if (each * ranks <= cpus) {
        gf_finding_add(ret, gf_status_ok, "%lu OpenMP threads for %u CPUs", each * ranks, cpus);
        return;
    }
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem,
                       ranks == 1 ? "%u rank%s with %lu OpenMP threads has %u CPU%s"
                                  : "%u rank%s with %lu OpenMP threads each share %u CPU%s",
                       ranks, ranks == 1 ? "" : "s", each, cpus, cpus == 1 ? "" : "s");
    if (set)
        gf_finding_evidence(finding, "%s=%lu; ranks on this node: %u", name, set, ranks);
    else
        gf_finding_evidence(finding, "%s is not set; ranks on this node: %u", name, ranks);
    gf_finding_fix(finding, "set %s=%u", name, cpus / ranks ? cpus / ranks : 1);
}
