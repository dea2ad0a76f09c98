/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"

/* Sums of stalls by a property, such as their cause. */

enum gf_by { GF_BY_CAUSE, GF_BY_SITE, GF_BY_RANK, GF_BY_STEP, GF_BY_THREAD, GF_BY_COUNT };

extern const char *const gf_by_names[GF_BY_COUNT];

struct gf_tally_row {
    int64_t key; /* value of the property: the index of a text or thread, a rank or a step */
    uint64_t count, us;
    uint32_t longest_us;
    double first, last; /* when the first and the last stall began */
    int64_t main;       /* the value of the second property with the longest sum */
    uint64_t main_us;
    uint32_t nth,
        at; /* this row has the nth key; the row whose key has this row's index is at `at` */
};

struct gf_tally {
    enum gf_by by, second;
    struct gf_tally_row *rows; /* the longest sum first */
    size_t count;
};

/*
 * Sums all stalls by the property `by`. The `main` of a row is the value of the property `second`
 * with the longest sum. The caller frees the rows.
 */
struct gf_tally gf_tally(const struct gf_job *job, enum gf_by by, enum gf_by second);

/* Returns the value of a property of a stall, as in gf_tally_row.key. */
int64_t gf_tally_key(const struct gf_job *job, const struct gf_stall *stall, enum gf_by by);

/*
 * Writes a key as text, such as "purge", "train.py:4 in load", "rank 3", "step 12" or "python3
 * 1234, rank 3".
 */
const char *gf_tally_label(const struct gf_job *job, enum gf_by by, int64_t key, char *buf,
                           size_t size);

/* Returns the row of a key; NULL if there is none. */
const struct gf_tally_row *gf_tally_find(const struct gf_tally *tally, int64_t key);

/* Adds stalls of which only the sum is known. The caller then calls gf_tally_join. */
void gf_tally_add(struct gf_tally *tally, int64_t key, uint64_t count, uint64_t us, double first,
                  double last);

/* Joins the rows with the same key, and sorts the rows. */
void gf_tally_join(struct gf_tally *tally);

struct gf_onset {
    double at;     /* time of the change; 0: nothing changed */
    double factor; /* factor by which stalls took more time after it, at most 1000 */
    /*
     * Step and rank of the first stall after the change at the call site with the most stalled
     * time; GF_NO_STEP and -1 if unknown.
     */
    int64_t step, rank;
};

/*
 * Finds the time from which on the stalls of a job took several times as much time as before.
 * Ignores stalls before `from` and after `to`. `site` is the call site with the most stalled time.
 */
struct gf_onset gf_onset_find(const struct gf_job *job, double from, double to, int64_t site);
