/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a struct; PCI devices. */
#pragma once

#include "base/cpus.h"

/*
 * Describes a machine: its NUMA nodes, packages and cores, and the nodes of PCI devices. It is a
 * plain struct, so that tests can run each decision for any machine. After loading, only the list
 * of GPUs may change (gf_pci_add).
 */

struct gf_node {
    unsigned id;     /* the kernel's number of the node; on Grace, some numbers are missing */
    int package;     /* index of the socket; -1 if unknown */
    bool has_memory; /* false: the node has CPUs only */
    /* True if the node has memory without CPUs: that of a GPU, CXL or another expander. */
    bool is_device;
    bool is_gpu;         /* true if the memory is known to be that of a GPU */
    struct gf_cpus cpus; /* online CPUs of the node; empty for memory-only nodes */
    uint64_t memory_bytes;
};

struct gf_core {
    struct gf_cpus cpus; /* the CPUs of the core (SMT siblings) */
    int package;
};

struct gf_pci {
    char bdf[20];        /* "0000:41:00.0", lower case */
    int numa_node;       /* the device's node, from /sys; -1 if unknown */
    struct gf_cpus cpus; /* CPUs of the file local_cpulist; empty if unknown */
};

struct gf_machine {
    bool recorded;
    struct gf_cpus online;
    struct gf_node *nodes; /* sorted by id */
    size_t node_count;
    unsigned *distances;   /* SLIT, node_count * node_count elements; NULL if unknown */
    struct gf_core *cores; /* sorted by their first CPU */
    size_t core_count;
    struct gf_pci *gpus; /* the NVIDIA GPUs in /sys, also those hidden from CUDA; sorted by bdf */
    size_t gpu_count;
};

/* Frees a machine that gf_machine_load returned. NULL is allowed. */
void gf_machine_free(struct gf_machine *machine);

/* Returns the node with this id; NULL if not found. */
const struct gf_node *gf_machine_node(const struct gf_machine *machine, unsigned id);

/* Returns the SLIT distance between the nodes with these ids; 0 if unknown. */
unsigned gf_machine_distance(const struct gf_machine *machine, unsigned from, unsigned to);

/* Computes the union of the CPUs of all nodes of a package. */
void gf_machine_package_cpus(const struct gf_machine *machine, int package, struct gf_cpus *ret);

/* Reads the PCI devices of a machine, and the node of each device, from /sys. */

/* The driver's file that contains the node of a GPU's own memory. %s is the PCI address. */
#define GF_PCI_NUMA_STATUS "proc/driver/nvidia/gpus/%s/numa_status"

/*
 * Fills machine->gpus, with at most 256 GPUs, from /sys/bus/pci/devices below root. The list is empty
 * on a machine without a PCI bus. Returns 0 or -ENOMEM.
 */
int gf_pci_gpus(const char *root, struct gf_machine *machine);

/*
 * Adds a device to machine->gpus, so that a test can place a device that is not an NVIDIA GPU like
 * a GPU. bdf: the PCI address in lower or upper case, with a domain of 4 or 8 digits. Returns 0 (also
 * if the device is already in the list), -ENOENT or -ENOMEM.
 */
int gf_pci_add(struct gf_machine *machine, const char *recorded, const char *bdf);

/* Returns the entry of machine->gpus with this address, in any spelling; NULL if not found. */
const struct gf_pci *gf_pci_gpu(const struct gf_machine *machine, const char *bdf);

/* Writes the canonical spelling of a PCI address. Returns 0 or -EINVAL. */
int gf_pci_canonical(const char *bdf, char ret[20]);

/* Whether the name of a folder, perhaps of another machine's recording, is such an address. */
bool gf_pci_is_canonical(const char *name);
