/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_HOST_PCI_H
#define GF_HOST_PCI_H

#include "host/machine.h"

/* Fills machine->gpus from /sys/bus/pci/devices below root. No PCI bus is no error. 0 or -ENOMEM. */
int gf_pci_gpus(const char *root, struct gf_machine *machine);

#endif
