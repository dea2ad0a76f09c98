/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which calls the kernel permits this process, by trying them. Capability bits and the
 * seccomp mode do not show this, because a container's profile may refuse any of these calls with
 * EPERM or ENOSYS.
 */
#ifndef GF_ENGINE_MACHINE_PROBE_H
#define GF_ENGINE_MACHINE_PROBE_H

#include "base/cpus.h"

#include <errno.h>

/*
 * An errno that none of these calls returns. ENOSYS is not used, because a seccomp filter may
 * return it.
 */
#define GF_UNTRIED ECANCELED

/*
 * Each member is 0 if the call succeeded, otherwise the call's errno or
 * GF_UNTRIED.
 */
struct gf_probe {
    int set_affinity;
    int get_mempolicy;
    int set_mempolicy;  /* set_mempolicy with MPOL_PREFERRED and the given node */
    int preferred_many; /* set_mempolicy with MPOL_PREFERRED_MANY; EINVAL before Linux 5.15 */
    int mbind;          /* mbind of a page that is mapped for the test */
};

/*
 * Tries the calls in a child process, so that they set nothing in this one. Without a child, each
 * is GF_UNTRIED. node has memory.
 */
void gf_probe_run(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret);
/* Tries them on the calling thread, which then restores its mask and policy. */
void gf_probe_here(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret);

/*
 * Returns a remedy for a refused call as one line, such as "--cap-add SYS_NICE"; NULL if unknown.
 */
const char *gf_probe_remedy(int error);

#endif
