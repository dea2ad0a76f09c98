/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the visible GPUs on which this process works. The first context may be on another device,
 * because frameworks create a context on device 0 in each rank. So the choice is provisional until
 * the process has allocated 256 MiB of device memory. Then the device with most of this memory is
 * chosen. A further device joins when the process has allocated 256 MiB on it. A chosen device
 * stays chosen.
 */
#pragma once

#include "base/atomic.h"
#include "base/base.h"

#define GF_CHOICE_DEVICES 64
/*
 * The choice is settled when this many bytes are allocated on all devices together. A further
 * device joins when at least this many bytes, and at least a sixteenth of all allocated bytes, are
 * allocated on it.
 */
#define GF_CHOICE_BYTES (UINT64_C(256) << 20)
/*
 * After the time limit (SETTLE_NS), the choice is settled if at least this many bytes are allocated
 * on all devices together.
 */
#define GF_CHOICE_LITTLE (UINT64_C(1) << 20)

enum gf_choice_why {
    gf_choice_why_none,
    gf_choice_why_only,    /* only one GPU is visible */
    gf_choice_why_rank,    /* the launcher's local rank */
    gf_choice_why_context, /* the device of the first context */
    gf_choice_why_memory,  /* the device with most of the memory when the choice was settled */
    gf_choice_why_several, /* several devices were chosen, because each has enough memory */
};

struct gf_choice {
    /* Members that any thread may write: */
    _Atomic uint64_t bytes[GF_CHOICE_DEVICES];
    _Atomic uint64_t total;
    _Atomic uint64_t contexts; /* bit n: a context was created on device n */
    _Atomic int first;         /* 1 + the device of the first context; 0: no context yet */
    /* Members that only the deciding thread writes: */
    uint64_t chosen; /* the chosen devices: bit n is device n */
    enum gf_choice_why why;
    bool settled;
};

/*
 * Record that a context or memory was created on a device. Return true if the decision may change.
 * May be called on any thread; take no lock.
 */
bool gf_choice_context(struct gf_choice *choice, int device);
bool gf_choice_memory(struct gf_choice *choice, int device, uint64_t bytes);

/*
 * Makes a choice before any context exists, from the number of visible devices, the launcher's
 * local rank and the number of local ranks (-1 if unknown). Returns true if these numbers determine
 * the GPU.
 */
bool gf_choice_preset(struct gf_choice *choice, int visible, int local_rank, int local_size);

/*
 * Updates the choice. settle: settle it now if at least GF_CHOICE_LITTLE bytes are allocated.
 * Returns true if `chosen` changed. Must be called by one thread at a time.
 */
bool gf_choice_decide(struct gf_choice *choice, bool settle);

/*
 * Returns the reason as a text for the report: "the only visible GPU", "first context" and so on.
 */
const char *gf_choice_why_text(enum gf_choice_why why);
