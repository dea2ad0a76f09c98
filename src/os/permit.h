/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which system calls the library may make. A seccomp filter may kill the process for a call that
 * neither glibc nor CUDA makes. Until gf_permit_find has run, every call is permitted except
 * close_range, which has a substitute. Any thread; keeps errno.
 */
#ifndef GF_OS_PERMIT_H
#define GF_OS_PERMIT_H

#include "base/base.h"

enum gf_permit {
    /* These calls only read. */
    gf_permit_mincore,
    gf_permit_move_pages,  /* without targets */
    gf_permit_read_memory, /* process_vm_readv of the process itself */
    /* With CLOSE_RANGE_UNSHARE, which changes only the calling thread's table. */
    gf_permit_close_range,
    /* These calls change CPU masks, memory policies and priorities. */
    gf_permit_set_affinity,
    gf_permit_set_mempolicy,
    gf_permit_mbind,
    gf_permit_io_priority, /* ioprio_get and ioprio_set */
    gf_permit_priority,    /* setpriority and sched_setscheduler */
    GF_PERMITS
};
#define GF_PERMIT_READING ((1U << gf_permit_set_affinity) - 1U)
#define GF_PERMIT_ALL ((1U << GF_PERMITS) - 1U)

bool gf_permit(enum gf_permit call);

/* Permits these calls, as bits, and no others. */
void gf_permit_only(unsigned calls);

/*
 * Seals the process. Called before the program installs a filter, or sets no_new_privs, which
 * usually precedes a filter. In a sealed process, none of the calls above is permitted, and no file
 * of /proc or /sys is opened.
 */
void gf_permit_seal(void);
bool gf_permit_sealed(void);

/* The word that holds the permitted calls, as bits. The engine uses the preload library's word. */
_Atomic unsigned *gf_permit_word(void);
void gf_permit_share(_Atomic unsigned *word);

#endif
