/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of an interval that took longest, for the event log. Each thread records into one of a
 * few shards. A copy that is not among the longest of its shard costs two loads. If no log is
 * written, each copy costs one load.
 *
 * All functions may be called on any thread. They take no lock and make no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_STATS_LONGEST_COPIES_H
#define GF_ENGINE_TRANSFER_STATS_LONGEST_COPIES_H

#include "engine/transfer/stats/copy_stats.h"

#include <sys/types.h>

/* X(token): the groups of copies that the report and the log distinguish. */
#define GF_COPY_GROUPS(X)                                                                          \
    X(staged)                                                                                      \
    X(pinned)                                                                                      \
    X(driver)                                                                                      \
    X(other)

enum gf_copy_group {
#define GF_COPY_GROUP_ENUMERATOR(token) gf_copy_group_##token,
    GF_COPY_GROUPS(GF_COPY_GROUP_ENUMERATOR)
#undef GF_COPY_GROUP_ENUMERATOR
        gf_copy_group_count,
};

/* Returns the group of copies with this reason. gf_bypass_none: the group of staged copies. */
enum gf_copy_group gf_copy_group(enum gf_bypass reason);
const char *gf_copy_group_name(enum gf_copy_group group);

struct gf_long_copy {
    uint64_t end_ns, ns, bytes; /* end_ns: CLOCK_MONOTONIC, within a microsecond */
    pid_t tid;                  /* the thread that called the copy */
    enum gf_direction direction;
    enum gf_copy_group group;
};

/* Begins to record copies. Before the first call of this function, no copy is recorded. */
void gf_longest_copies_start(void);

/*
 * Records a copy that has just ended and took `ns` nanoseconds, if it is among the longest copies.
 */
void gf_longest_copies_add(enum gf_direction direction, enum gf_bypass reason, uint64_t bytes,
                           uint64_t ns);

/*
 * Returns in `ret` the longest copies since the last call, sorted by duration with the longest
 * first. Returns their number, at most `max`. All other recorded copies are discarded. Only one
 * thread at a time calls this function.
 */
size_t gf_longest_copies_take(struct gf_long_copy *ret, size_t max);

#endif
