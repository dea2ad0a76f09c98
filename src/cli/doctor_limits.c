/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include "host/cgroup.h"
#include "host/headroom.h"
#include "host/sysfile.h"
#include "host/tasks.h"
#include "place/locate.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define LITTLE_MEMORY (UINT64_C(1) << 30)
#define FEW_THREADS 128 /* the library starts a handful, each worker of a DataLoader as many as OpenMP does */
#define LITTLE_SHM (UINT64_C(1) << 30) /* Docker gives 64 MiB */

/* Sets the mask that the calling thread has already. 0 or the errno, and which call it was that answered so. */
static int affinity_error(const char **ret_call)
{
    struct gf_cpus mask;

    *ret_call = "sched_getaffinity";
    const int error = gf_tasks_get_mask(0, &mask);
    if (error)
        return -error;
    *ret_call = "sched_setaffinity";
    return -gf_tasks_set_mask(0, &mask);
}

/*
 * Asked by trying, as policies are. The kernel itself lets each thread have its own mask again: who refuses that is a
 * seccomp filter (EPERM, ENOSYS) or, with EACCES, SELinux. With one node of CPUs nothing would be bound.
 */
void gf_check_affinity(const struct gf_patient *patient, struct gf_advices *ret)
{
    const char *call;

    if (gf_patient_is_recorded(patient) || gf_locate_cpu_nodes(patient->topo->machine) < 2)
        return;
    const int error = affinity_error(&call);
    if (!error) {
        gf_advise(ret, gf_health_fine, "binding threads to CPUs is permitted");
        return;
    }
    if (error == EINVAL) { /* more CPUs than a set holds, or they changed meanwhile */
        gf_advise(ret, gf_health_unknown, "binding threads to CPUs: %s: %s", call, strerror(error));
        return;
    }
    static const char why[] = "threads stay where the kernel puts them, DataLoader's workers too: on any node, and the memory "
                              "that they touch with them";
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "binding threads to CPUs is refused");
    gf_advise_read(advice, "%s: %s", call, strerror(error));
    if (error == EACCES)
        gf_advise_mend(advice, why, "SELinux: allow the domain setsched on its own processes (ausearch -m AVC names it), or "
                                    "docker run --security-opt label=disable");
    else
        gf_advise_mend(advice, why,
                       "allow %s in the seccomp profile, as Docker's default does: docker run --security-opt "
                       "seccomp=PROFILE.json with {\"names\": [\"%s\"], \"action\": \"SCMP_ACT_ALLOW\"} (Kubernetes: "
                       "seccompProfile.localhostProfile; systemd: SystemCallFilter=%s)", call, call, call);
}

/* Asked by trying; a recorded machine cannot be. */
void gf_check_policy(const struct gf_patient *patient, struct gf_advices *ret)
{
    const struct gf_machine *machine = patient->topo->machine;
    struct gf_probe probe;
    const int node = gf_set_next(&patient->topo->facts.mems, 0);

    if (gf_patient_is_recorded(patient) || machine->node_count < 2 || node < 0)
        return;
    gf_probe_run(NULL, (unsigned)node, &patient->topo->facts.start, &probe);
    const int error = probe.set_mempolicy ? probe.set_mempolicy : probe.mbind;
    if (!error) {
        gf_advise(ret, gf_health_fine, "memory policies are permitted");
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "memory policies are refused");
    gf_advise_read(advice, "%s: %s", probe.set_mempolicy ? "set_mempolicy" : "mbind", strerror(error));
    gf_advise_mend(advice, "memory is on the GPU's node only where a thread there touches it first; what was there before stays",
                   "%s", gf_probe_remedy(error) ? gf_probe_remedy(error) : "ask who set the limits");
}

void gf_check_quota(const struct gf_patient *patient, struct gf_advices *ret)
{
    const double quota = gf_cgroup_quota(patient->root);
    const unsigned cpus = gf_set_count(&patient->topo->facts.start);

    if (quota <= 0 || quota >= cpus) {
        if (!gf_patient_is_recorded(patient))
            gf_advise(ret, gf_health_fine, "no quota: %u CPUs as long as they are wanted", cpus);
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "a quota of %.3g CPUs' time on %u CPUs", quota, cpus);
    gf_advise_read(advice, "cpu.max (version 1: cpu.cfs_quota_us); standing still so far: %.1f s (cpu.stat)",
                   (double)gf_cgroup_throttled_ns(patient->root) / 1e9);
    gf_advise_mend(advice,
                   "used up, all threads stand still to the end of the period, up to 100 ms, the one that feeds the GPU too",
                   "docker run --cpuset-cpus instead of --cpus; Kubernetes: whole CPUs, requests equal to limits, the static CPU "
                   "manager");
}

void gf_check_memory(const struct gf_patient *patient, struct gf_advices *ret)
{
    struct gf_headroom headroom;

    gf_headroom_read(patient->root, -1, &headroom);
    if (headroom.bytes == GF_HEADROOM_UNKNOWN) {
        gf_advise(ret, gf_health_unknown, "how much memory is left: neither /proc/meminfo nor a control group says");
    } else if (headroom.bytes >= LITTLE_MEMORY) {
        gf_advise(ret, gf_health_fine, "%.1f GiB of memory are left (%s)", (double)headroom.bytes / (1 << 30),
                  gf_headroom_source(&headroom));
    } else {
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "only %llu MiB of memory are left",
                                             (unsigned long long)headroom.bytes >> 20);
        gf_advise_read(advice, "%s", gf_headroom_source(&headroom));
        gf_advise_mend(advice,
                       "pinned memory and the ring of copies keep to a part of what is left; without it copies are the driver's",
                       "a higher limit: docker run --memory, Kubernetes: resources.limits.memory, Slurm: --mem");
    }
}

void gf_check_shm(const struct gf_patient *patient, struct gf_advices *ret)
{
    static const char folder[] = "/dev/shm";
    struct statvfs fs;

    if (gf_patient_is_recorded(patient))
        return;
    if (statvfs(folder, &fs)) {
        gf_advise(ret, gf_health_unknown, "shared memory: %s: %s", folder, strerror(errno));
        return;
    }
    const uint64_t bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    if (fs.f_blocks == 0) {
        gf_advise(ret, gf_health_fine, "%s is not limited", folder); /* mounted with size=0 */
        return;
    }
    if (bytes >= LITTLE_SHM) {
        gf_advise(ret, gf_health_fine, "%s holds %.1f GiB", folder, (double)bytes / (1 << 30));
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "%s holds only %llu MiB", folder, (unsigned long long)bytes >> 20);
    gf_advise_read(advice, "statvfs %s", folder);
    gf_advise_mend(advice, "DataLoader workers hand over their batches there, and die of a bus error when it is full",
                   "docker run --ipc=host or --shm-size=8g; Kubernetes: an emptyDir with medium: Memory at %s", folder);
}

/* Not that the host has cards, which /sys shows in each container: that this process may use one. */
static bool has_infiniband(const struct gf_patient *patient)
{
    char path[GF_SYSFILE_PATH_MAX];
    bool found = false;

    snprintf(path, sizeof(path), "%s/dev/infiniband", patient->root);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));)
        found = strncmp(entry->d_name, "uverbs", strlen("uverbs")) == 0;
    if (folder)
        closedir(folder);
    return found;
}

/* The limit does not bind CAP_IPC_LOCK; that of a user namespace, where there are fewer users, counts for nothing. */
static bool may_lock_all(const struct gf_patient *patient)
{
    char text[4096], map[256];

    gf_sysfile_read(text, sizeof(text), patient->root, "proc/self/status");
    const char *effective = gf_sysfile_field(text, "CapEff");
    if (!effective || !(strtoull(effective, NULL, 16) >> CAP_IPC_LOCK & 1))
        return false;
    gf_sysfile_read(map, sizeof(map), patient->root, "proc/self/uid_map");
    return strstr(map, " 4294967295") != NULL;
}

/* The soft limit behind a name in /proc/self/limits, UINT64_MAX where there is none; false: nothing tells. */
static bool read_limit(const struct gf_patient *patient, const char *name, uint64_t *ret)
{
    char text[4096];

    if (gf_sysfile_read(text, sizeof(text), patient->root, "proc/self/limits") <= 0)
        return false;
    const char *at = strstr(text, name);
    if (!at)
        return false;
    at += strlen(name);
    at += strspn(at, " ");
    *ret = *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : UINT64_MAX;
    return true;
}

/* CUDA's own pinning is not bound by it (docs/transfers.md); what registers for a network card is. */
void gf_check_memlock(const struct gf_patient *patient, struct gf_advices *ret)
{
    uint64_t limit;

    if (!has_infiniband(patient) || !read_limit(patient, "Max locked memory", &limit))
        return;
    if (limit == UINT64_MAX || may_lock_all(patient)) {
        gf_advise(ret, gf_health_fine, "locked memory is not limited");
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "locked memory is limited to %llu KiB, and there is InfiniBand",
                                         (unsigned long long)limit >> 10);
    gf_advise_read(advice, "/proc/self/limits: Max locked memory; /dev/infiniband");
    gf_advise_mend(advice, "NCCL's buffers cannot be registered with the network card (CUDA's pinned memory is not bound by it)",
                   "docker run --ulimit memlock=-1; LimitMEMLOCK=infinity for the container runtime or slurmd");
}

void gf_check_space(const struct gf_patient *patient, struct gf_advices *ret)
{
    uint64_t limit;

    if (!read_limit(patient, "Max address space", &limit))
        return;
    if (limit == UINT64_MAX) {
        gf_advise(ret, gf_health_fine, "address space is not limited");
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "address space is limited to %llu MiB",
                                         (unsigned long long)limit >> 20);
    gf_advise_read(advice, "/proc/self/limits: Max address space");
    gf_advise_mend(advice,
                   "CUDA sets aside more of it than there is memory, and the heap and each helper thread take some: what "
                   "finds no room is left out, or fails",
                   "ulimit -v unlimited; Slurm: PropagateResourceLimitsExcept=AS, VSizeFactor=0");
}

void gf_check_threads(const struct gf_patient *patient, struct gf_advices *ret)
{
    const uint64_t left = gf_cgroup_threads_left(patient->root);

    if (left == UINT64_MAX)
        return;
    if (left >= FEW_THREADS) {
        gf_advise(ret, gf_health_fine, "%llu more threads may be started", (unsigned long long)left);
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "only %llu more threads may be started",
                                         (unsigned long long)left);
    gf_advise_read(advice, "pids.max and pids.current of the control group or one above it");
    gf_advise_mend(advice, "workers of a DataLoader fail to start, and copies are left to the driver where no helper can",
                   "docker run --pids-limit -1; Kubernetes: the kubelet's podPidsLimit; systemd: TasksMax=infinity");
}
