/* SPDX-License-Identifier: Apache-2.0 */
/* The data that `gpufeed topo` shows and `gpufeed doctor` checks, gathered once, and its recording. */
#pragma once

#include "host/facts.h"
#include "host/machine.h"

/*
 * The GPUs that a program will see, in the driver's order. The list is read from files, because
 * initializing the driver takes a second.
 */

#define GF_VISIBLE_GPUS_MAX 64

struct gf_visible_gpu {
    char bdf[20];
    char uuid[64];  /* "GPU-..."; "" unknown */
    char model[64]; /* "" unknown */
};

struct gf_visible_gpus {
    struct gf_visible_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t count;
    bool ordered; /* gpus[i] is the program's device i */
    /* The reason why the list or its order is uncertain; NULL: both are certain. */
    const char *doubt;
};

/*
 * Lists the GPUs of the kernel driver at root ("": this system) that this process may open, in the
 * order of their PCI addresses. In a container, these are the container's GPUs. For a recording
 * without the driver's files, lists all GPUs of `machine`, which may be NULL.
 */
void gf_visible_gpus_read(const struct gf_machine *machine, const char *root,
                          struct gf_visible_gpus *ret);

/*
 * Filters and orders the list by CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. If only the driver can
 * resolve a word, such as a MIG instance, the list stays unchanged, and `doubt` gives the reason.
 */
void gf_visible_gpus_choose(struct gf_visible_gpus *visible);

/* Records the visible GPUs of this system in the folder, which must exist. Returns 0 or -errno. */
int gf_visible_gpus_record(const char *folder);

struct gf_topo_gpu {
    char bdf[20];
    const char *name, *uuid; /* "" unknown; of gf_topo.all */
    int device;              /* CUDA's expected index; -1 if hidden or uncertain */
    bool visible;
    struct gf_nodes nodes; /* empty if unknown */
    const char *source;    /* the source of the nodes; NULL if unknown */
    struct gf_cpus cpus;   /* the CPUs of these nodes */
    struct gf_cpus usable; /* the part of `cpus` that this process may use */
    /* If `usable` is empty, the nearest node with CPUs that this process may use; -1 if unknown. */
    int nearest;
};

struct gf_topo {
    const struct gf_machine *machine;
    struct gf_facts facts;
    /*
     * False for a recording without a mask; facts.start is then a mask of this machine, not of the
     * recorded one.
     */
    bool has_mask;
    struct gf_visible_gpus all, visible;
    struct gf_topo_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t gpu_count;
};

/*
 * Gathers the data about this process and about a machine, whose files are at root. *ret refers to
 * the machine.
 */
void gf_topo_gather(const struct gf_machine *machine, const char *root, struct gf_topo *ret);

/* recording.c: the kernel's cpufreq files of a CPU, whose values all CPUs of a policy share. */
#define GF_CPUFREQ "sys/devices/system/cpu/cpu%u/cpufreq/"

/*
 * Sets *ret to the CPUs that share this CPU's policy on the machine at root ("": this one), including
 * this CPU.
 */
void gf_cpufreq_policy(const char *root, unsigned cpu, struct gf_cpus *ret);

/*
 * Records this machine in the folder, which is created if it is missing. --machine and GPUFEED_MACHINE
 * read the folder instead of this system's files. Returns 0 or -errno.
 */
int gf_recording_write(const char *folder);
