/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls the kernel permits this process, found by trying them. Capability bits and the
 * seccomp mode do not show this: a container's profile may refuse any of these calls with EPERM or
 * ENOSYS.
 */
#ifndef GF_ENGINE_MACHINE_PROBE_H
#define GF_ENGINE_MACHINE_PROBE_H

#include "base/cpus.h"

#include <errno.h>
#include <pthread.h>

/*
 * An errno that none of these calls returns. ENOSYS is not used, because a seccomp filter may
 * return it.
 */
#define GF_UNTRIED ECANCELED

/* Each is 0 if the call succeeded on a scratch thread, otherwise its errno or GF_UNTRIED. */
struct gf_probe {
    int set_affinity;
    int get_mempolicy;
    int set_mempolicy;  /* MPOL_PREFERRED of the given node */
    int preferred_many; /* MPOL_PREFERRED_MANY of that node: EINVAL before Linux 5.15 */
    int mbind;          /* tried on a separate page */
};

/*
 * Runs the probe on a scratch thread and waits for it, so no hook may call this. create replaces
 * pthread_create; NULL: pthread_create itself. node has memory.
 */
void gf_probe_run(int (*create)(pthread_t *ret, void *(*run)(void *), void *arg), unsigned node,
                  const struct gf_cpus *cpus, struct gf_probe *ret);

/* A one-line remedy for a refused call ("--cap-add SYS_NICE"); NULL if unknown. */
const char *gf_probe_remedy(int error);

#endif
