/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices of a machine and the node of each, from /sys. */
#ifndef GF_ENGINE_MACHINE_PCI_H
#define GF_ENGINE_MACHINE_PCI_H

#include "engine/machine/machine.h"

/* The driver's file about the node of a GPU's own memory, by PCI address. */
#define GF_PCI_NUMA_STATUS "proc/driver/nvidia/gpus/%s/numa_status"

/*
 * Fills machine->gpus from /sys/bus/pci/devices below root. The list is empty on a machine without
 * a PCI bus. 0 or -ENOMEM.
 */
int gf_pci_gpus(const char *root, struct gf_machine *machine);

/*
 * Finds the node and CPUs of any PCI device, GPU or not. bdf is in either case, with a domain of 4
 * or 8 digits. 0 or -ENOENT.
 */
int gf_pci_read(const struct gf_machine *machine, const char *recorded, const char *bdf,
                struct gf_pci *ret);

/*
 * Adds a device that is not an NVIDIA GPU (a test device) to gpus, so that it can be placed like a
 * GPU. 0 (also if it is in the list already), -ENOENT or -ENOMEM.
 */
int gf_pci_add(struct gf_machine *machine, const char *recorded, const char *bdf);

/* The entry of gpus with this address, in any spelling; NULL if not found. */
const struct gf_pci *gf_pci_gpu(const struct gf_machine *machine, const char *bdf);

/* Writes the canonical spelling of a PCI address. 0 or -EINVAL. */
int gf_pci_canonical(const char *bdf, char ret[20]);

#endif
