/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/stall_count.h"

#include "base/atomic.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct gf_stall_count own[GF_CAUSE_COUNT];
/*
 * `own`, or memory that is shared with children. The counts are changed by the __atomic_* builtins.
 */
static struct gf_stall_count *_Atomic counts = own;

void gf_stall_count_share(void)
{
    struct gf_stall_count *shared = (struct gf_stall_count *)syscall(
        SYS_mmap, NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0L);

    if ((void *)shared == MAP_FAILED)
        return;
    memcpy(shared, own, sizeof(own));
    gf_store_release(&counts, shared);
}

void gf_stall_count_add(enum gf_cause cause, uint64_t us)
{
    struct gf_stall_count *at = &gf_load_acquire(&counts)[cause];

    __atomic_fetch_add(&at->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&at->us, us, __ATOMIC_RELAXED);
}

void gf_stall_count_move(enum gf_cause from, enum gf_cause to, uint64_t us)
{
    struct gf_stall_count *at = &gf_load_acquire(&counts)[from];

    __atomic_fetch_sub(&at->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&at->us, us, __ATOMIC_RELAXED);
    gf_stall_count_add(to, us);
}

void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    const struct gf_stall_count *from = gf_load_acquire(&counts);

    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        ret[i].calls = __atomic_load_n(&from[i].calls, __ATOMIC_RELAXED);
        ret[i].us = __atomic_load_n(&from[i].us, __ATOMIC_RELAXED);
    }
}
