/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups and the container's id. */
#pragma once

#include "base/base.h"
#include "base/cpus.h"

/*
 * Reads the limits of this process's control groups, version 1 and 2. For the parameter root, see
 * os/procfs.h. The functions make only system calls and allocate nothing. They may be called on any
 * thread, and may change errno.
 */

/*
 * Finds the path of the group in the hierarchy of a v1 controller, or of v2 if the controller is
 * "". Sets ret to the path, such as "/a/b", or "" for the top of the hierarchy. scratch: space for
 * a line of /proc/self/cgroup, because the heap calls this function on small stacks. Returns false
 * if there is no such hierarchy.
 */
bool gf_cgroup_find(const char *root, const char *controller, char *scratch, size_t scratch_size,
                    char *ret, size_t size);
/* Removes the last component of the path. Returns false if the path is the top. */
bool gf_cgroup_to_parent(char *group);

/* The possible mount points of the v2 hierarchy, relative to root. */
#define GF_CGROUP_MOUNT "sys/fs/cgroup"
#define GF_CGROUP_MOUNT_UNIFIED GF_CGROUP_MOUNT "/unified"

/*
 * Reads the CPUs of the group's cpuset. Returns 0. If no cpuset can be read, returns -ENOENT and
 * leaves *ret unchanged.
 */
int gf_cgroup_cpuset(const char *root, struct gf_cpus *ret);

/* Returns the lowest CPU quota of the group and its visible parents, in CPUs; 0 if unlimited. */
double gf_cgroup_quota(const char *root);

/* Whether a limit of cgroup version 2 forbids swapping out the group's memory. */
bool gf_cgroup_has_no_swap(const char *root);

/*
 * Whether a limit of the group or of a visible parent can delay the group's reads of disks (io.max,
 * or blkio.throttle in version 1) or its use of memory (memory.high).
 */
bool gf_cgroup_limits_reading(const char *root);

/*
 * Returns how many more threads the group and its visible parents allow; UINT64_MAX if unlimited.
 */
uint64_t gf_cgroup_threads_left(const char *root);

/* Returns for how many nanoseconds the group has been throttled so far; 0 if unknown. */
uint64_t gf_cgroup_throttled_ns(const char *root);

/* Finds the id of the container of this process. */

#define GF_CONTAINER_ID 65

/*
 * Finds the id of the container: 64 hex digits, which Docker, containerd and Podman put into the
 * paths of cgroups and mounts. Returns false if no id is found. Makes only system calls, so it may
 * be called at any time, also inside malloc.
 */
bool gf_container_id(char ret[GF_CONTAINER_ID]);
