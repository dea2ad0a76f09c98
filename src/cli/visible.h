/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs a program that is about to start will see, in the driver's order, as far as that can
 * be known without asking the driver (which would start it up and cost a second).
 */
#ifndef GF_CLI_VISIBLE_H
#define GF_CLI_VISIBLE_H

#include "host/machine.h"

#define GF_VISIBLE_MAX 64

struct gf_visible_gpu {
    char bdf[20];
    char uuid[64];  /* "GPU-..."; "" unknown */
    char model[64]; /* "" unknown */
};

struct gf_visible {
    struct gf_visible_gpu gpus[GF_VISIBLE_MAX];
    size_t count;
    bool ordered;     /* gpus[i] is the program's device i */
    const char *doubt; /* why the list or its order is not certain; NULL */
};

/*
 * What the kernel driver shows below root ("" for this system) and permits, by PCI address. In a
 * container that is what was passed in; a device that a cgroup refuses is not there. A recorded
 * machine without the driver's files shows all of its GPUs; machine may be NULL.
 */
void gf_visible_read(const struct gf_machine *machine, const char *root, struct gf_visible *ret);

/*
 * Narrows and orders the list as CUDA_VISIBLE_DEVICES (NULL: unset) and CUDA_DEVICE_ORDER say.
 * Where a word cannot be understood without the driver (MIG instances) the list stays and doubt says why.
 */
void gf_visible_choose(struct gf_visible *visible, const char *devices, const char *order);

/* Copies what gf_visible_read reads on this system to below folder, which exists. 0 or -errno. */
int gf_visible_record(const char *folder);

#endif
