/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the PCI devices of a machine, and the node of each device, from /sys. */
#ifndef GF_ENGINE_MACHINE_PCI_H
#define GF_ENGINE_MACHINE_PCI_H

#include "engine/machine/machine.h"

/* The driver's file that contains the node of a GPU's own memory. %s is the PCI address. */
#define GF_PCI_NUMA_STATUS "proc/driver/nvidia/gpus/%s/numa_status"

/*
 * Fills machine->gpus from /sys/bus/pci/devices below root. The list is empty on a machine without
 * a PCI bus. Returns 0 or -ENOMEM.
 */
int gf_pci_gpus(const char *root, struct gf_machine *machine);

/*
 * Finds the node and CPUs of any PCI device. bdf: the PCI address in lower or upper case, with a
 * domain of 4 or 8 digits. Returns 0 or -ENOENT.
 */
int gf_pci_read(const struct gf_machine *machine, const char *recorded, const char *bdf,
                struct gf_pci *ret);

/*
 * Adds a device to machine->gpus, so that a test can place a device that is not an NVIDIA GPU like
 * a GPU. Returns 0 (also if the device is already in the list), -ENOENT or -ENOMEM.
 */
int gf_pci_add(struct gf_machine *machine, const char *recorded, const char *bdf);

/* Returns the entry of machine->gpus with this address, in any spelling; NULL if not found. */
const struct gf_pci *gf_pci_gpu(const struct gf_machine *machine, const char *bdf);

/* Writes the canonical spelling of a PCI address. Returns 0 or -EINVAL. */
int gf_pci_canonical(const char *bdf, char ret[20]);

/* Whether the name of a folder, perhaps of another machine's recording, is such an address. */
bool gf_pci_is_canonical(const char *name);

#endif
