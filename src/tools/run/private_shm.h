/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed run --shm=huge`: a private mount of /dev/shm whose files consist of huge pages. */
#pragma once

#include "tools/run/program_start.h"

enum gf_shm {
    gf_shm_mounted,
    gf_shm_kept,   /* the present mount already gives huge pages */
    gf_shm_failed, /* nothing has changed */
    gf_shm_ranks,  /* another rank on this host shares /dev/shm; nothing has changed */
};

/*
 * Mounts a tmpfs with huge=within_size on /dev/shm, in a mount namespace of this process. For a user
 * without capabilities, this namespace belongs to a user namespace with the same user and group. The
 * size is the free space of the present mount. A child process tries all calls first, so a refused
 * call changes nothing. If `dry`, only the child makes them. The process must have one thread.
 *
 * ret: the mount's options as the kernel reports them, or why there is no new mount.
 */
enum gf_shm gf_shm_mount(char *const *command, const struct gf_env *env, bool dry, char *ret,
                         size_t size);
