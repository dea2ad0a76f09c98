/* SPDX-License-Identifier: Apache-2.0 */
/* The container that this process is in. */
#ifndef GF_OS_CONTAINER_H
#define GF_OS_CONTAINER_H

#include "base/base.h"

#define GF_CONTAINER_ID 65

/*
 * The container's id, which Docker, containerd and Podman put into the paths of cgroups and mounts:
 * 64 hex digits. False if no id is found. Makes only system calls: any time, also inside malloc.
 */
bool gf_container_id(char ret[GF_CONTAINER_ID]);

#endif
