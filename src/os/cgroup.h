/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of this process's control groups, version 1 and 2. root: os/procfs.h. The code makes
 * only system calls and allocates nothing. Any thread; errno may change.
 */
#ifndef GF_OS_CGROUP_H
#define GF_OS_CGROUP_H

#include "base/cpus.h"

/*
 * The group's path in the hierarchy of a v1 controller, or of v2 if the controller is "": "/a/b",
 * or "" for the top. scratch: space for a line of the file, because the heap calls this on small
 * stacks. False if no such hierarchy exists.
 */
bool gf_cgroup_find(const char *root, const char *controller, char *scratch, size_t scratch_size,
                    char *ret, size_t size);
/* Removes the last component of the path; false at the top. */
bool gf_cgroup_to_parent(char *group);

/* Possible mount points of v2, below root. */
#define GF_CGROUP_MOUNT "sys/fs/cgroup"
#define GF_CGROUP_MOUNT_UNIFIED GF_CGROUP_MOUNT "/unified"

/*
 * The CPUs of the cpuset. Returns 0; or -ENOENT if no cpuset can be read, and leaves *ret
 * unchanged.
 */
int gf_cgroup_cpuset(const char *root, struct gf_cpus *ret);

/* The lowest CPU quota of the group and its visible parents, in CPUs; 0 if unlimited. */
double gf_cgroup_quota(const char *root);

/* Whether a limit of cgroup version 2 forbids swapping out the group's memory. */
bool gf_cgroup_has_no_swap(const char *root);

/*
 * Whether a limit of the group or of a visible parent delays its reading (io.max, or version 1's
 * throttling) or its use of memory (memory.high).
 */
bool gf_cgroup_limits_reading(const char *root);

/* How many more threads the group and its visible parents allow; UINT64_MAX if unlimited. */
uint64_t gf_cgroup_threads_left(const char *root);

/* For how many nanoseconds the group was throttled so far; 0 if unknown. */
uint64_t gf_cgroup_throttled_ns(const char *root);

#endif
