/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_HOST_CONTAINER_H
#define GF_HOST_CONTAINER_H

#include "base/base.h"

#define GF_CONTAINER_ID 65

/*
 * The id of the container that this process is in, as Docker, containerd and Podman leave it in
 * the names of control groups and mounts: 64 hex digits. False where there is none. Reads by system
 * calls alone: any time, inside malloc.
 */
bool gf_container_id(char ret[GF_CONTAINER_ID]);

#endif
