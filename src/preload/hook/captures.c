/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/captures.h"

#include "base/atomic.h"
#include "preload/hook/submissions.h"

/* A thread that ends a stream or a context has the slot. Its capture may end meanwhile: CLOSED. */
#define HELD ((uintptr_t)4)
#define CLOSED ((uintptr_t)5)

/*
 * `origin` is 0 if the slot is free; GF_SUBMIT_FILLING, HELD or CLOSED while a thread owns the slot;
 * and otherwise equal to `stream`. While a thread owns the slot, only that thread changes the other
 * members.
 */
static struct {
    _Atomic(uintptr_t) origin, stream;
    _Atomic(uintptr_t) context;
} slots[GF_CAPTURES];
static _Atomic unsigned without_slot;

static bool take_slot(unsigned i, uintptr_t from, uintptr_t to)
{
    return gf_load_relaxed(&slots[i].origin) == from && gf_cas_acq_rel(&slots[i].origin, &from, to);
}

void gf_captures_open(CUstream origin, CUcontext context)
{
    gf_add_seq_cst(&gf_submissions.captures, 1);
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_slot(i, 0, GF_SUBMIT_FILLING)) {
            gf_store_relaxed(&slots[i].stream, (uintptr_t)origin);
            gf_store_relaxed(&slots[i].context, (uintptr_t)context);
            gf_store_release(&slots[i].origin, (uintptr_t)origin);
            return;
        }
    gf_add_relaxed(&without_slot, 1);
}

static void free_slot(unsigned i)
{
    gf_store_release(&slots[i].origin, 0);
    gf_sub_seq_cst(&gf_submissions.captures, 1);
}

void gf_captures_close(CUstream origin)
{
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_slot(i, (uintptr_t)origin, GF_SUBMIT_FILLING)) {
            free_slot(i);
            return;
        }
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (gf_load_acquire(&slots[i].origin) == HELD &&
            gf_load_relaxed(&slots[i].stream) == (uintptr_t)origin && take_slot(i, HELD, CLOSED))
            return;
    unsigned now = gf_load_relaxed(&without_slot);
    while (now && !gf_cas_weak_relaxed(&without_slot, &now, now - 1))
        continue;
    if (now)
        gf_sub_seq_cst(&gf_submissions.captures, 1);
}

unsigned gf_captures_of_stream(CUstream origin)
{
    unsigned ret = 0;

    if (gf_likely(!gf_load_relaxed(&gf_submissions.captures)) ||
        (uintptr_t)origin <= GF_SUBMIT_FILLING)
        return 0;
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_slot(i, (uintptr_t)origin, HELD))
            ret |= 1u << i;
    return ret;
}

unsigned gf_captures_of_context(CUcontext context)
{
    unsigned ret = 0;

    for (unsigned i = 0; context && i < GF_CAPTURES; i++) {
        const uintptr_t origin = gf_load_acquire(&slots[i].origin);
        if (origin && (origin < GF_SUBMIT_FILLING || origin > CLOSED) &&
            gf_load_relaxed(&slots[i].context) == (uintptr_t)context && take_slot(i, origin, HELD))
            ret |= 1u << i;
    }
    return ret;
}

void gf_captures_left(unsigned captures, bool ended)
{
    for (; captures; captures &= captures - 1) {
        const unsigned i = (unsigned)__builtin_ctz(captures);
        if (ended || !take_slot(i, HELD, gf_load_relaxed(&slots[i].stream)))
            free_slot(i);
    }
}
