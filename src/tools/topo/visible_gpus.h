/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs that a program will see, in the driver's order. The list is read from files, because
 * initializing the driver takes a second.
 */
#pragma once

#include "host/machine.h"

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
 * Filters and orders the list by the values of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (NULL if
 * unset). If only the driver can resolve a word, such as a MIG instance, the list stays unchanged,
 * and `doubt` gives the reason.
 */
void gf_visible_gpus_choose(struct gf_visible_gpus *visible, const char *devices,
                            const char *order);

/* Records the visible GPUs of this system in the folder, which must exist. Returns 0 or -errno. */
int gf_visible_gpus_record(const char *folder);
