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

/* The mount point of the v2 hierarchy, relative to root. */
#define GF_CGROUP_MOUNT "sys/fs/cgroup"

/* A path, relative to root, where the hierarchy of a controller may be mounted. */
struct gf_cgroup_place {
    const char *mount, *controller; /* for the controller, see gf_cgroup_find */
};

/* Where the files of memory may be; after the last place, mount is NULL. */
extern const struct gf_cgroup_place gf_cgroup_memory_places[];

/*
 * Walks through the process's group and then its visible parents, in each of the places. The
 * process's own group may be missing in a place for two reasons. In a container without a cgroup
 * namespace, the path is the one on the host, but the group itself is mounted at the mount point.
 * And a controller may be disabled below some level of the hierarchy.
 */
struct gf_cgroup_walk {
    const char *root;
    const struct gf_cgroup_place *place; /* set by the caller to the first place */
    bool is_inside;
    char group[1024];
    char line[2048]; /* space for gf_cgroup_find */
};

/* Goes to the next group. Returns false after the last one. */
bool gf_cgroup_next(struct gf_cgroup_walk *walk);
/* Reads a file of the group as gf_procfs_read does. */
int gf_cgroup_read(const struct gf_cgroup_walk *walk, const char *file, char *buf, size_t size);

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
