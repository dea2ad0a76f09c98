/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether there are enough CPUs for the GPUs and for the threads, and which other threads run
 * on these CPUs.
 */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "os/cgroup.h"
#include "os/launch.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <string.h>

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
            ? gf_finding_add(ret, gf_status_problem, "%.3g CPU%s: copies will not be staged", cpus,
                             cpus > 0.99 && cpus < 1.01 ? "" : "s")
            : gf_finding_add(ret, gf_status_problem,
                             "%.3g CPUs for %zu GPUs: for some GPUs, copies will not be staged",
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

/* The kernel moves no thread between isolated CPUs, so threads stay where they start. */
void gf_check_isolated_cpus(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char file[] = "sys/devices/system/cpu/isolated";
    const struct gf_cpus *cpus = gf_host_cpus(input);
    struct gf_cpus isolated = {0};
    char list[128], allowed[128];

    if (gf_procfs_cpus(&isolated, input->root, file) || gf_set_empty(&isolated))
        return;
    gf_set_format(&isolated, list, sizeof(list));
    if (gf_set_count(cpus) < 2 || !gf_set_within(cpus, &isolated)) {
        gf_finding_add(ret, gf_status_ok, "CPUs %s are isolated; this process may use others",
                       list);
        return;
    }
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem, "this process may use only isolated CPUs");
    gf_finding_evidence(finding, "/%s: %s; this process may use %s", file, list,
                        gf_set_format(cpus, allowed, sizeof(allowed)));
    gf_finding_fix(finding, "give the process other CPUs, or boot without isolcpus= for these and "
                            "assign them by cpusets");
}

void gf_check_kubelet(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char file[] = "var/lib/kubelet/cpu_manager_state";
    char text[512]; /* policyName is the first member of the JSON object */

    if (gf_procfs_read(text, sizeof(text), input->root, "%s", file) <= 0)
        return; /* no node of Kubernetes, or a container that does not see the file */
    if (strstr(text, "\"policyName\":\"static\"")) {
        gf_finding_add(ret, gf_status_ok, "the kubelet gives Guaranteed pods CPUs of their own");
        return;
    }
    if (!strstr(text, "\"policyName\":\"none\""))
        return;
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem, "the kubelet lets all pods share all CPUs");
    gf_finding_evidence(finding, "/%s: policyName none", file);
    gf_finding_fix(finding,
                   "in the kubelet's configuration: cpuManagerPolicy: static, "
                   "reservedSystemCPUs: the CPUs of the system, topologyManagerPolicy: restricted; "
                   "drain the node, remove /%s, and restart the kubelet",
                   file);
}
