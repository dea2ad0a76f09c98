/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of this process's control groups, version 1 and 2, below a root that tests move. */
#ifndef GF_HOST_CGROUP_H
#define GF_HOST_CGROUP_H

#include "base/cpus.h"

/*
 * The group's path in the hierarchy of a v1 controller, or of v2 for "": "/a/b", "" for the top.
 * scratch is for the text of the file, since allocators call this on small stacks.
 */
bool gf_cgroup_find(const char *root, const char *controller, char *scratch, size_t scratch_size,
                    char *ret, size_t size);
/* Cuts the last part off; false at the top. */
bool gf_cgroup_to_parent(char *group);

/* Where v2 may be mounted, from root. */
#define GF_CGROUP_MOUNT "sys/fs/cgroup"
#define GF_CGROUP_MOUNT_UNIFIED GF_CGROUP_MOUNT "/unified"

/* 0, or -ENOENT when no cpuset group can be read (then *ret is untouched). */
int gf_cgroup_cpuset(const char *root, struct gf_cpus *ret);

/* CPUs' worth of the tightest quota of the group and its visible parents; 0 when unlimited. */
double gf_cgroup_quota(const char *root);

/* Whether version 2 says that nothing of the group is swapped out. */
bool gf_cgroup_has_no_swap(const char *root);

/* How many more threads the group and its visible parents allow; UINT64_MAX when unlimited. */
uint64_t gf_cgroup_threads_left(const char *root);

/* Nanoseconds for which the group was throttled; 0 when unknown. */
uint64_t gf_cgroup_throttled_ns(const char *root);

#endif
