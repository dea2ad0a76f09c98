/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the visible GPUs this process works on. The first context may be on another device,
 * because frameworks create a context on device 0 in each rank. So the choice is provisional until
 * the process has allocated 256 MiB. Then the device with most of that memory is chosen. Another
 * device joins later if the process allocates 256 MiB there. No device leaves.
 */
#ifndef GF_ENGINE_PLACE_CHOICE_H
#define GF_ENGINE_PLACE_CHOICE_H

#include "base/atomic.h"
#include "base/base.h"

#define GF_CHOICE_DEVICES 64
/* So many bytes settle the choice, or let a further device join. */
#define GF_CHOICE_BYTES (UINT64_C(256) << 20)
/* So many bytes settle the choice after the time limit. */
#define GF_CHOICE_LITTLE (UINT64_C(1) << 20)

enum gf_choice_why {
    gf_choice_why_none,
    gf_choice_why_only,    /* one GPU is visible */
    gf_choice_why_rank,    /* the launcher's local rank */
    gf_choice_why_context, /* the first context */
    gf_choice_why_memory,  /* most of the first memory */
    gf_choice_why_several, /* several devices have enough memory to join */
};

struct gf_choice {
    /* Written by any thread. */
    _Atomic uint64_t bytes[GF_CHOICE_DEVICES];
    _Atomic uint64_t total;
    _Atomic uint64_t contexts; /* bit n: device n has had a context */
    _Atomic int first;         /* device of the first context + 1; 0 before it */
    /* Written by the thread that decides. */
    uint64_t chosen; /* the chosen devices: bit n is device n */
    enum gf_choice_why why;
    bool settled;
};

/* Records evidence; any thread, lock-free. True if the decision may change. */
bool gf_choice_context(struct gf_choice *choice, int device);
bool gf_choice_memory(struct gf_choice *choice, int device, uint64_t bytes);

/*
 * Makes a choice before any context, from the number of visible devices and the launcher's local
 * rank and number of local ranks (-1 if unknown). True if that determines the GPU.
 */
bool gf_choice_preset(struct gf_choice *choice, int visible, int local_rank, int local_size);

/*
 * Called by one thread at a time. settle: decide by the present evidence. True if `chosen` changed.
 */
bool gf_choice_decide(struct gf_choice *choice, bool settle);

/* For the report: "the only visible GPU", "first context", ... */
const char *gf_choice_why_text(enum gf_choice_why why);

#endif
