/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine: NUMA nodes, packages, cores, and the nodes of PCI devices. A plain struct, so that
 * tests can run each decision on any machine. Constant after loading, except for the list of GPUs
 * (gf_pci_add).
 */
#ifndef GF_ENGINE_MACHINE_MACHINE_H
#define GF_ENGINE_MACHINE_MACHINE_H

#include "base/cpus.h"

struct gf_node {
    unsigned id;         /* the kernel's number; numbers have gaps on Grace */
    int package;         /* index of the socket; -1 if unknown */
    bool has_memory;     /* false: the node has only CPUs */
    bool is_device;      /* memory without CPUs: a GPU's, CXL, or another expander */
    bool is_gpu;         /* the memory is known to be a GPU's own */
    struct gf_cpus cpus; /* online CPUs of the node; empty for memory-only nodes */
    uint64_t memory_bytes;
};

struct gf_core {
    struct gf_cpus cpus; /* SMT siblings */
    int package;
};

struct gf_pci {
    char bdf[20];        /* "0000:41:00.0", lower case */
    int numa_node;       /* its node, from /sys; -1 if unknown */
    struct gf_cpus cpus; /* local_cpulist; empty if unknown */
    bool is_gpu;         /* NVIDIA, class 0x0300 or 0x0302 */
};

struct gf_machine {
    bool recorded;
    struct gf_cpus online;
    struct gf_node *nodes; /* sorted by id */
    size_t node_count;
    unsigned *distances;   /* node_count * node_count, SLIT; NULL if unknown */
    struct gf_core *cores; /* sorted by their first CPU */
    size_t core_count;
    struct gf_pci *gpus; /* sorted by bdf: the NVIDIA GPUs that /sys shows, hidden ones included */
    size_t gpu_count;
};

/* Frees the result of gf_machine_load; NULL is allowed. */
void gf_machine_free(struct gf_machine *machine);

/* The node with this id; NULL if not found. */
const struct gf_node *gf_machine_node(const struct gf_machine *machine, unsigned id);

/* SLIT distance between two nodes by id; 0 if unknown. */
unsigned gf_machine_distance(const struct gf_machine *machine, unsigned from, unsigned to);

/* Union of the CPUs of all nodes of a package. */
void gf_machine_package_cpus(const struct gf_machine *machine, int package, struct gf_cpus *ret);

#endif
