/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine is: NUMA nodes, packages, cores, and where PCI devices sit. From hwloc and
 * /sys of this machine, or from a recorded one. A plain struct: the layer above decides on it
 * without asking the system again, so that each decision can be tested on any machine.
 */
#ifndef GF_HOST_MACHINE_H
#define GF_HOST_MACHINE_H

#include "base/cpus.h"

struct gf_node {
    unsigned id;          /* the kernel's number; sparse on Grace */
    int package;          /* index of the socket, -1 unknown */
    bool has_memory;      /* false: a node of CPUs only */
    bool is_device;       /* its memory is a GPU's or CXL's: never a target for host pages */
    struct gf_cpus cpus;  /* online CPUs of the node; empty for memory-only nodes */
    uint64_t memory_bytes;
};

struct gf_core {
    struct gf_cpus cpus; /* SMT siblings */
    int package;
};

struct gf_pci {
    char bdf[20];        /* "0000:41:00.0", lower case */
    int numa_node;       /* as /sys says; -1 unknown */
    struct gf_cpus cpus; /* local_cpulist; empty unknown */
    bool is_gpu;         /* NVIDIA, class 0x0300 or 0x0302 */
};

struct gf_machine {
    bool recorded;
    struct gf_cpus online;
    struct gf_node *nodes;  /* by ascending id */
    size_t node_count;
    unsigned *distances;    /* node_count * node_count, SLIT; NULL unknown */
    struct gf_core *cores;  /* by ascending first CPU */
    size_t core_count;
    struct gf_pci *gpus;    /* by ascending bdf; NVIDIA GPUs that /sys shows, hidden ones included */
    size_t gpu_count;
};

/*
 * recorded: folder of a recorded machine, NULL or "" for this one. A recorded machine is hwloc's
 * topology.xml, or a description for its synthetic topologies in topology.txt, and the part of /sys
 * that is read here (docs/placement.md). 0 or -errno; the result is the
 * caller's, freed by gf_machine_free. Allocates; takes 5 to 30 ms on a large machine; rebinds no
 * thread and loads no hwloc plugin. Any thread, also under the loader's lock.
 */
int gf_machine_load(const char *recorded, struct gf_machine **ret);
void gf_machine_free(struct gf_machine *machine);

/* Writes this machine into the folder, made if need be, as gf_machine_load reads it. 0 or -errno. */
int gf_machine_record(const char *folder);
/* A file more of this system ("proc/meminfo"); one that it lacks stays missing. 0 or -errno. */
int gf_machine_record_file(const char *folder, const char *name);

/* NULL when there is none. */
const struct gf_node *gf_machine_node(const struct gf_machine *machine, unsigned id);

/* Where a PCI device sits, also one that is no GPU. bdf in any case and with a 4- or 8-digit domain. 0, -ENOENT. */
int gf_machine_pci(const struct gf_machine *machine, const char *recorded, const char *bdf,
                   struct gf_pci *ret);

/*
 * Adds a device that is not in gpus because it is no NVIDIA GPU (a test device), so that it can be
 * placed like one. 0 (also when it is there already), -ENOENT, -ENOMEM.
 */
int gf_machine_add(struct gf_machine *machine, const char *recorded, const char *bdf);

/* The entry of gpus with this address (any spelling); NULL when there is none. */
const struct gf_pci *gf_machine_gpu(const struct gf_machine *machine, const char *bdf);

/* Writes the canonical spelling of a PCI address. 0 or -EINVAL. */
int gf_pci_canonical(const char *bdf, char ret[20]);

/* SLIT distance between two nodes by id; 0 when unknown. */
unsigned gf_machine_distance(const struct gf_machine *machine, unsigned from, unsigned to);

/* Union of the CPUs of all nodes of a package. */
void gf_machine_package_cpus(const struct gf_machine *machine, int package, struct gf_cpus *ret);

#endif
