/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the id of the container of this process. */
#ifndef GF_OS_CONTAINER_H
#define GF_OS_CONTAINER_H

#include "base/base.h"

#define GF_CONTAINER_ID 65

/*
 * Finds the id of the container: 64 hex digits, which Docker, containerd and Podman put into the
 * paths of cgroups and mounts. Returns false if no id is found. Makes only system calls, so it may
 * be called at any time, also inside malloc.
 */
bool gf_container_id(char ret[GF_CONTAINER_ID]);

#endif
