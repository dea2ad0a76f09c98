/* SPDX-License-Identifier: Apache-2.0 */
#include "os/launch.h"

#include "base/fmt.h"
#include "os/procfs.h"

#include <strings.h>

const char *const gf_launch_job_variables[GF_LAUNCH_JOB_VARIABLES + 1] = {
    "SLURM_JOB_ID",        "SLURM_STEP_ID",           "PBS_JOBID",          "LSB_JOBID", "JOB_ID",
    "TORCHELASTIC_RUN_ID", "OMPI_MCA_ess_base_jobid", "KUBERNETES_POD_UID", "POD_NAME",  NULL,
};

const char *gf_launch_variable(char *const *envp, const char *name)
{
    const size_t length = strlen(name);
    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

const char *gf_launch_job(char *const *envp)
{
    for (const char *const *name = gf_launch_job_variables; *name; name++) {
        const char *value = gf_launch_variable(envp, *name);
        if (value && *value && strcmp(value, "none") != 0)
            return value;
    }
    return NULL;
}

static int rank_number(char *const *envp, const char *name)
{
    const char *value = name ? gf_launch_variable(envp, name) : NULL;

    if (!value)
        return -1;
    /*
     * Slurm writes the number of tasks on each host: "8", or "8(x2)" if two hosts have 8 each. If
     * the hosts differ, as in "8,4", the number of this host is unknown.
     */
    const size_t length = strspn(value, "0123456789");
    if (length == 0 || length >= 16 || (value[length] && value[length] != '('))
        return -1;
    if (value[length] == '(' && strchr(value + length, ','))
        return -1;
    const uint64_t n = gf_procfs_number(value);
    return n > 1 << 24 ? -1 : (int)n;
}

static const struct launcher {
    const char *name, *local_rank, *local_size, *rank, *size;
} launchers[] = {
    {"torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE"},
    {"MPICH", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE"},
    {"MPICH", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"},
    {"PALS", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_RANKID", NULL},
    {"Slurm", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID", "SLURM_NTASKS"},
    {"Slurm", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_NTASKS"},
    {"Slurm", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE", "SLURM_PROCID", "SLURM_NTASKS"},
};

void gf_launch_rank(char *const *envp, struct gf_rank *ret)
{
    *ret = (struct gf_rank){-1, -1, -1, -1, NULL};
    for (size_t i = 0; i < GF_ARRAY_LEN(launchers); i++) {
        const struct launcher *l = &launchers[i];
        const int local_rank = rank_number(envp, l->local_rank);
        const int local_size = rank_number(envp, l->local_size);
        const bool whole = local_size > 0 && local_rank < local_size;
        if (local_rank < 0 || (ret->source && !whole))
            continue;
        *ret = (struct gf_rank){local_rank, whole ? local_size : -1, rank_number(envp, l->rank),
                                rank_number(envp, l->size), l->name};
        if (whole)
            return;
    }
}

void gf_launch_name(const struct gf_rank *rank, char *buf, size_t size)
{
    *buf = '\0';
    if (rank->rank >= 0 && rank->size != 1)
        gf_fmt(buf, size, "rank %d", rank->rank);
}

static bool is_off_word(const char *value)
{
    static const char *const words[] = {"",    "0",       "false",    "no",
                                        "off", "disable", "disabled", "none"};
    for (size_t i = 0; i < GF_ARRAY_LEN(words); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* Returns the name of the first variable whose value does not mean off; NULL if not found. */
static const char *first_on(char *const *envp, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = gf_launch_variable(envp, names[i]);
        if (value && !is_off_word(value))
            return names[i];
    }
    return NULL;
}

const char *gf_launch_pinning(char *const *envp)
{
    /* MKL has no variable in this list, because it uses the settings of its OpenMP runtime. */
    static const char *const names[] = {
        "OMP_PROC_BIND",   "OMP_PLACES",          "GOMP_CPU_AFFINITY", "KMP_AFFINITY",
        "KMP_HW_SUBSET",   "I_MPI_PIN",           "I_MPI_PIN_DOMAIN",  "I_MPI_PIN_PROCESSOR_LIST",
        "MV2_CPU_MAPPING", "MV2_ENABLE_AFFINITY", "LIKWID_PIN",        "LIKWID_SKIP",
    };
    return first_on(envp, names, GF_ARRAY_LEN(names));
}

/*
 * Returns the argument of this process with which vLLM, SGLang or torchrun binds its workers; NULL
 * if not found.
 */
static const char *binding_flag(const char *root)
{
    static const char *const flags[] = {"--numa-binding", "--numa-bind", "--numa-node"};
    char text[4096];
    const int length = gf_procfs_read(text, sizeof(text), root, "proc/self/cmdline");

    for (const char *at = text; length > 0 && at < text + length; at += strlen(at) + 1)
        for (size_t i = 0; i < GF_ARRAY_LEN(flags); i++) {
            const size_t n = strlen(flags[i]);
            if (strncmp(at, flags[i], n) == 0 && (at[n] == '\0' || at[n] == '='))
                return flags[i];
        }
    return NULL;
}

const char *gf_launch_binder(const char *root, char *const *envp)
{
    static const char *const names[] = {
        "ACCELERATE_CPU_AFFINITY", "TLLM_NUMA_AWARE_WORKER_AFFINITY", "SGLANG_AUTO_NUMA_BIND",
        "SGLANG_NUMA_BIND_V2",     "SGLANG_SET_CPU_AFFINITY",         "NRL_GPU_CPU_AFFINITY_FILE",
    };
    const char *variable = first_on(envp, names, GF_ARRAY_LEN(names));
    return variable ? variable : binding_flag(root);
}
