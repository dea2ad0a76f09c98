/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and variables. */
#include "host/facts.h"
#include "host/locate.h"
#include "host/mempolicy.h"
#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/headroom.h"
#include "os/procfs.h"
#include "tools/doctor/finding.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#define MEMORY_LEAST (UINT64_C(1) << 30)
#define SHM_LEAST (UINT64_C(1) << 30) /* Docker's default is 64 MiB */
/* A soft limit of 1024 is common; workers and connections of one process rarely need this many. */
#define OPEN_FILES_LEAST 16384
#define OPEN_FILES_SET 65535 /* the limit that vLLM sets for itself */
/*
 * With this many more threads, a program can start the library's few threads and one OpenMP team in
 * each DataLoader worker.
 */
#define THREADS_LEAST 128

struct trial {
    const char *call; /* the one that failed */
    int error;
};

static int set_mask_in_child(void *arg)
{
    struct trial *trial = arg;
    struct gf_cpus mask;

    trial->call = "sched_getaffinity";
    trial->error = gf_tasks_get_mask(0, &mask);
    if (trial->error)
        return 0;
    trial->call = "sched_setaffinity";
    trial->error = gf_tasks_set_mask(0, &mask);
    return 0;
}

/*
 * Sets the present CPU mask in a child process, because the command itself sets nothing. Returns 0,
 * or an errno and in *ret_call the name of the failed call.
 */
static int try_set_mask(const char **ret_call)
{
    struct trial trial = {"clone", -EAGAIN};
    const int failed = gf_child_call(set_mask_in_child, &trial);

    *ret_call = trial.call;
    return failed ? -failed : -trial.error;
}

/*
 * A thread may always set its present mask, unless a seccomp filter (EPERM, ENOSYS) or SELinux
 * (EACCES) refuses the call. If all CPUs are on one node, the check is skipped, because the library
 * binds no thread then.
 */
void gf_check_affinity(const struct gf_check_input *input, struct gf_findings *ret)
{
    const char *call;

    if (gf_check_is_recorded(input) || gf_locate_cpu_nodes(input->topo->machine) < 2)
        return;
    const int error = try_set_mask(&call);
    if (gf_ok_if(ret, !error, "binding threads to CPUs is permitted"))
        return;
    /* The set is too small, the cpuset has just changed, or no child could be created. */
    if (error == EINVAL || error == EAGAIN || error == ENOMEM) {
        gf_unknown(ret, "cannot test the binding of threads to CPUs: %s: %s", call,
                   strerror(error));
        return;
    }
    gf_problem(ret, "binding threads to CPUs is refused");
    gf_evidence(ret, "%s: %s", call, strerror(error));
    if (error == EACCES)
        gf_fix(ret, "SELinux: allow the domain setsched on its own processes (ausearch "
                    "-m AVC names it), or docker run --security-opt label=disable");
    else
        gf_fix(
            ret,
            "allow %s in the seccomp profile, as Docker's default does: docker run --security-opt "
            "seccomp=PROFILE.json with {\"names\": [\"%s\"], \"action\": \"SCMP_ACT_ALLOW\"} "
            "(Kubernetes: seccompProfile.localhostProfile; systemd: SystemCallFilter=%s)",
            call, call, call);
}

void gf_check_policy(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_machine *machine = input->topo->machine;
    const char *call;

    if (gf_check_is_recorded(input) || machine->node_count < 2 ||
        gf_set_empty(&input->topo->facts.mems))
        return;
    const int error = gf_mempolicy_refusal(&call);
    if (gf_ok_if(ret, !error, "memory policies are permitted"))
        return;
    const char *remedy = gf_probe_remedy(error);
    gf_problem(ret, "memory policies are refused");
    gf_evidence(ret, "%s: %s", call, strerror(error));
    gf_fix(ret, "%s", remedy ? remedy : "ask the administrator who set the limits");
}

void gf_check_quota(const struct gf_check_input *input, struct gf_findings *ret)
{
    const double quota = gf_cgroup_quota(input->root);
    const unsigned cpus = gf_set_count(&input->topo->facts.start);

    if (quota <= 0 || quota >= cpus) {
        if (!gf_check_is_recorded(input))
            gf_ok(ret, "no CPU quota; %u CPUs available", cpus);
        return;
    }
    gf_problem(ret, "the CPU quota is %.3g CPUs of the %u available", quota, cpus);
    gf_evidence(ret, "cpu.max (version 1: cpu.cfs_quota_us); throttled so far: %.1f s (cpu.stat)",
                (double)gf_cgroup_throttled_ns(input->root) / 1e9);
    gf_fix(ret, "docker run --cpuset-cpus instead of --cpus; Kubernetes: whole CPUs, "
                "requests equal to limits, the static CPU manager");
}

void gf_check_memory(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct gf_headroom headroom;

    gf_headroom_read(input->root, -1, &headroom);
    if (headroom.bytes == GF_HEADROOM_UNKNOWN) {
        gf_unknown(
            ret,
            "available memory is unknown: neither /proc/meminfo nor a control group reports it");
        return;
    }
    if (gf_ok_if(ret, headroom.bytes >= MEMORY_LEAST, "%.1f GiB of memory are available (%s)",
                 (double)headroom.bytes / (1 << 30), gf_headroom_source(&headroom)))
        return;
    gf_problem(ret, "only %lu MiB of memory are available", headroom.bytes >> 20);
    gf_evidence(ret, "%s", gf_headroom_source(&headroom));
    gf_fix(ret, "raise the limit: docker run --memory; Kubernetes: "
                "resources.limits.memory; Slurm: --mem");
}

void gf_check_shm(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char folder[] = "/dev/shm";
    struct statvfs fs;

    if (gf_check_is_recorded(input))
        return;
    if (statvfs(folder, &fs)) {
        gf_unknown(ret, "shared memory: %s: %s", folder, strerror(errno));
        return;
    }
    const uint64_t bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    if (fs.f_blocks == 0) {
        gf_ok(ret, "%s is not limited", folder); /* mounted with size=0 */
        return;
    }
    if (gf_ok_if(ret, bytes >= SHM_LEAST, "%s holds %.1f GiB", folder, (double)bytes / (1 << 30)))
        return;
    gf_problem(ret, "%s holds only %lu MiB", folder, bytes >> 20);
    gf_evidence(ret, "statvfs %s", folder);
    gf_fix(ret,
           "docker run --ipc=host or --shm-size=8g; Kubernetes: an emptyDir with medium: "
           "Memory at %s",
           folder);
}

/*
 * Whether the process has CAP_IPC_LOCK in the initial user namespace. If so, no limit of locked
 * memory applies. The initial user namespace is the one whose uid_map contains all ids.
 */
static bool may_lock_all(const struct gf_check_input *input)
{
    char text[4096], map[256];

    gf_procfs_read(text, sizeof(text), input->root, "proc/self/status");
    const char *effective = gf_procfs_field(text, "CapEff");
    if (!effective || !(strtoull(effective, NULL, 16) >> CAP_IPC_LOCK & 1))
        return false;
    gf_procfs_read(map, sizeof(map), input->root, "proc/self/uid_map");
    return strstr(map, " 4294967295") != NULL;
}

/*
 * Reads a soft limit from /proc/self/limits. *ret is UINT64_MAX if there is no limit. Returns false
 * if the file has no row with this name.
 */
static bool read_limit(const struct gf_check_input *input, const char *name, uint64_t *ret)
{
    char text[4096];

    if (gf_procfs_read(text, sizeof(text), input->root, "proc/self/limits") <= 0)
        return false;
    const char *at = strstr(text, name);
    if (!at)
        return false;
    at += strlen(name);
    at += strspn(at, " ");
    *ret = *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : UINT64_MAX;
    return true;
}

/*
 * The limit of locked memory applies to RDMA registration, but not to CUDA's pinned memory
 * (docs/transfers.md).
 */
void gf_check_memlock(const struct gf_check_input *input, struct gf_findings *ret)
{
    uint64_t limit;

    /* In /dev are only the cards that the process may use; /sys has all cards of the host. */
    if (!gf_host_has(input, "dev/infiniband", "uverbs") ||
        !read_limit(input, "Max locked memory", &limit))
        return;
    if (gf_ok_if(ret, limit == UINT64_MAX || may_lock_all(input), "locked memory is not limited"))
        return;
    gf_problem(ret, "locked memory is limited to %lu KiB, and InfiniBand is present", limit >> 10);
    gf_evidence(ret, "/proc/self/limits: Max locked memory; /dev/infiniband");
    gf_fix(ret, "docker run --ulimit memlock=-1; LimitMEMLOCK=infinity for the "
                "container runtime or slurmd");
}

void gf_check_address_space(const struct gf_check_input *input, struct gf_findings *ret)
{
    uint64_t limit;

    if (!read_limit(input, "Max address space", &limit))
        return;
    if (gf_ok_if(ret, limit == UINT64_MAX, "address space is not limited"))
        return;
    gf_problem(ret, "address space is limited to %lu MiB", limit >> 20);
    gf_evidence(ret, "/proc/self/limits: Max address space");
    gf_fix(ret, "ulimit -v unlimited; Slurm: PropagateResourceLimitsExcept=AS, "
                "VSizeFactor=0");
}

void gf_check_open_files(const struct gf_check_input *input, struct gf_findings *ret)
{
    uint64_t limit;

    if (!read_limit(input, "Max open files", &limit))
        return;
    if (gf_ok_if(ret, limit >= OPEN_FILES_LEAST, "enough files can be open"))
        return;
    gf_problem(ret, "only %lu files can be open", limit);
    gf_evidence(ret, "/proc/self/limits: Max open files");
    gf_fix(ret,
           "ulimit -n %d before the program starts; docker run --ulimit "
           "nofile=%d; systemd: LimitNOFILE=%d",
           OPEN_FILES_SET, OPEN_FILES_SET, OPEN_FILES_SET);
}

void gf_check_threads(const struct gf_check_input *input, struct gf_findings *ret)
{
    const uint64_t left = gf_cgroup_threads_left(input->root);

    if (left == UINT64_MAX)
        return;
    if (gf_ok_if(ret, left >= THREADS_LEAST, "%lu more threads can be started", left))
        return;
    gf_problem(ret, "only %lu more threads can be started", left);
    gf_evidence(ret, "pids.max and pids.current of the control group or a parent");
    gf_fix(ret, "docker run --pids-limit -1; Kubernetes: the kubelet's podPidsLimit; "
                "systemd: TasksMax=infinity");
}

static const struct {
    const char *name;
    /*
     * A value that contains this word makes the program slow. If `part` is "", each value except
     * "0" and "" does.
     */
    const char *part;
    const char *effect, *fix;
} slow[] = {
    {"CUDA_LAUNCH_BLOCKING", "", "each kernel launch waits for the GPU", NULL},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "", "each tensor is allocated by the driver", NULL},
    {"PYTORCH_ALLOC_CONF", "expandable_segments:False", "GPU memory becomes fragmented",
     "set expandable_segments:True"},
    {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", "GPU memory becomes fragmented",
     "set expandable_segments:True"}, /* the name before PyTorch 2.9 */
    {"NCCL_P2P_DISABLE", "", "GPUs exchange data through host memory", NULL},
    {"NCCL_SHM_DISABLE", "", "ranks of one host exchange data through sockets", NULL},
    {"NCCL_IB_DISABLE", "", "NCCL does not use InfiniBand or RoCE", NULL},
    {"NCCL_IGNORE_CPU_AFFINITY", "", "NCCL's threads leave the CPUs that the job was given", NULL},
    {"NCCL_DEBUG", "TRACE", "NCCL writes a line for each call", "unset it, or use NCCL_DEBUG=WARN"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "each collective call is compared across ranks", NULL},
};

static bool is_set(const char *value, const char *part)
{
    if (!value)
        return false;
    return *part ? strstr(value, part) != NULL : *value && strcmp(value, "0") != 0;
}

void gf_check_environment(const struct gf_check_input *input, struct gf_findings *ret)
{
    bool any = false;

    (void)input;
    for (size_t i = 0; i < GF_ARRAY_LEN(slow); i++) {
        const char *value = getenv(slow[i].name);
        if (!is_set(value, slow[i].part))
            continue;
        gf_problem(ret, "%s: %s", slow[i].name, slow[i].effect);
        gf_evidence(ret, "%s=%s", slow[i].name, value);
        gf_fix(ret, "%s%s", slow[i].fix ? slow[i].fix : "unset ", slow[i].fix ? "" : slow[i].name);
        any = true;
    }
    if (!any)
        gf_ok(ret, "no variable slows CUDA, PyTorch or NCCL down");
}
