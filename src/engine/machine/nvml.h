/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the node of a GPU from NVML, which knows it even if firmware reports no node to the kernel.
 * NVML is used only if the process has already loaded it, because loading it would change the
 * program's behaviour.
 */
#ifndef GF_ENGINE_MACHINE_NVML_H
#define GF_ENGINE_MACHINE_NVML_H

#include "base/base.h"

struct gf_nvml {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*memory_affinity)(void *device, unsigned words, unsigned long *ret_nodes, unsigned scope);
};

/*
 * Returns false if the process has not loaded NVML, or if NVML fails; then gf_nvml_close must not
 * be called. Takes the loader's lock, so no hook may call this function.
 */
bool gf_nvml_open(struct gf_nvml *ret);
void gf_nvml_close(struct gf_nvml *nvml);

/* Returns the node of the GPU with this PCI address; -1 if NVML does not know it. */
int gf_nvml_node(const struct gf_nvml *nvml, const char *bdf);

#endif
