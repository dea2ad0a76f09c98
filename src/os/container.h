/* SPDX-License-Identifier: Apache-2.0 */
/* The container of this process. */
#ifndef GF_OS_CONTAINER_H
#define GF_OS_CONTAINER_H

#include "base/base.h"

#define GF_CONTAINER_ID 65

/*
 * The container's id: 64 hex digits, which Docker, containerd and Podman put into the paths of
 * cgroups and mounts. False if no id is found. Makes only system calls, so it may be called at any
 * time, also inside malloc.
 */
bool gf_container_id(char ret[GF_CONTAINER_ID]);

#endif
