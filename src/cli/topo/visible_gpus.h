/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs that a program will see, in the driver's order, determined from files only: the driver
 * would first have to initialise, which takes a second.
 */
#ifndef GF_CLI_TOPO_VISIBLE_GPUS_H
#define GF_CLI_TOPO_VISIBLE_GPUS_H

#include "engine/machine/machine.h"

#define GF_VISIBLE_GPUS_MAX 64

struct gf_visible_gpu {
    char bdf[20];
    char uuid[64];  /* "GPU-..."; "" unknown */
    char model[64]; /* "" unknown */
};

struct gf_visible_gpus {
    struct gf_visible_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t count;
    bool ordered;      /* gpus[i] is the program's device i */
    const char *doubt; /* why the list or its order is uncertain; or NULL */
};

/*
 * Reads the GPUs that the kernel driver lists below root ("" for this system) and that this process
 * may open, by PCI address. In a container these are the devices passed to it. A recorded machine
 * without the driver's files lists all of its GPUs. machine may be NULL.
 */
void gf_visible_gpus_read(const struct gf_machine *machine, const char *root,
                          struct gf_visible_gpus *ret);

/*
 * Filters and orders the list by CUDA_VISIBLE_DEVICES (NULL if unset) and CUDA_DEVICE_ORDER. If
 * only the driver can resolve a word (MIG instances), the list is unchanged, and doubt gives the
 * reason.
 */
void gf_visible_gpus_choose(struct gf_visible_gpus *visible, const char *devices,
                            const char *order);

/* Records the visible GPUs of this system in the folder, which must exist. 0 or -errno. */
int gf_visible_gpus_record(const char *folder);

#endif
