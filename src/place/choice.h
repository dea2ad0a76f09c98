/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the visible GPUs this process works on. A first context may be an accident (rank 5
 * touches device 0), so a choice is provisional until memory has spoken: one device holds the
 * most of the first 256 MiB. From then on devices may join, when they hold as much themselves,
 * and none leaves: a process with several GPUs ends with all of them.
 */
#ifndef GF_PLACE_CHOICE_H
#define GF_PLACE_CHOICE_H

#include "base/base.h"

#define GF_CHOICE_DEVICES 64
#define GF_CHOICE_BYTES (UINT64_C(256) << 20) /* that settle it, and that let a device join */
#define GF_CHOICE_LITTLE (UINT64_C(1) << 20)  /* enough to settle it once patience is over */

enum gf_choice_why {
    gf_choice_why_none,
    gf_choice_why_only,    /* one GPU is visible */
    gf_choice_why_rank,    /* the launcher's local rank */
    gf_choice_why_context, /* the first context */
    gf_choice_why_memory,  /* most of the first memory */
};

struct gf_choice {
    /* Written by any thread. */
    uint64_t bytes[GF_CHOICE_DEVICES];
    uint64_t total;
    uint64_t contexts; /* bit n: device n has had a context */
    int first;         /* device of the first context + 1; 0: none yet */
    /* Written by the one thread that decides. */
    uint64_t chosen; /* bit n: device n */
    enum gf_choice_why why;
    bool settled;
};

/* What was seen; any thread, lock-free. True when a decision may come out differently now. */
bool gf_choice_context(struct gf_choice *choice, int device);
bool gf_choice_memory(struct gf_choice *choice, int device, uint64_t bytes);

/*
 * What is known before any context: the number of visible devices and the launcher's local rank
 * and number of local ranks (-1 unknown). True when that settles it for now.
 */
bool gf_choice_preset(struct gf_choice *choice, int visible, int local_rank, int local_size);

/* One thread at a time. impatient: settle with what is there. True when `chosen` has changed. */
bool gf_choice_decide(struct gf_choice *choice, bool impatient);

/* For the report: "the only visible GPU", "first context", ... */
const char *gf_choice_why_text(enum gf_choice_why why);

#endif
