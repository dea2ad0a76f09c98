/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which system calls this process may make. A seccomp filter may kill the process at a call that
 * glibc and CUDA never make. Before anything is known, every call is permitted except close_range,
 * which has a substitute. Any thread; keeps errno.
 */
#ifndef GF_OS_PERMIT_H
#define GF_OS_PERMIT_H

#include "base/base.h"

enum gf_permit {
    /* These calls read. */
    gf_permit_mincore,
    gf_permit_move_pages,  /* without targets */
    gf_permit_read_memory, /* process_vm_readv of the process itself */
    gf_permit_close_range, /* with CLOSE_RANGE_UNSHARE: changes only the calling thread's table */
    /* These calls set something. */
    gf_permit_set_affinity,
    gf_permit_set_mempolicy,
    gf_permit_mbind,
    GF_PERMITS
};
#define GF_PERMIT_READING ((1U << gf_permit_set_affinity) - 1U)
#define GF_PERMIT_ALL ((1U << GF_PERMITS) - 1U)

bool gf_permit(enum gf_permit call);

/* Permits these calls, as bits, and no others. */
void gf_permit_only(unsigned calls);

/*
 * Called when the program is about to install a filter, or to give up privileges, which it must do
 * before it installs one. From now on no call above is permitted, and no file of /proc or /sys is
 * opened.
 */
void gf_permit_seal(void);
bool gf_permit_sealed(void);

/* The permitted calls, as bits. The engine shares the preload library's word, so both agree. */
_Atomic unsigned *gf_permit_word(void);
void gf_permit_share(_Atomic unsigned *word);

#endif
