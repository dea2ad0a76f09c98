/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records which system calls the library may make. A seccomp filter may kill the process for a call
 * that neither glibc nor CUDA makes. Until gf_permit_find has run, every call listed below is
 * permitted except close_range, which has a substitute. The functions may be called on any thread,
 * and keep errno.
 */
#pragma once

#include "base/base.h"

enum gf_permit {
    /* These calls only read. */
    gf_permit_mincore,
    gf_permit_msync,       /* with MS_INVALIDATE, on private memory */
    gf_permit_move_pages,  /* without target nodes */
    gf_permit_read_memory, /* process_vm_readv of the process itself */
    /* process_vm_writev of the process itself, which a copy uses if the program handles faults. */
    gf_permit_write_memory,
    gf_permit_get_mempolicy,
    gf_permit_take_file, /* pidfd_open, pidfd_getfd and kcmp of the process itself */
    /* With CLOSE_RANGE_UNSHARE, which changes only the calling thread's table. */
    gf_permit_close_range,
    /* These calls change CPU masks, memory policies and priorities. */
    gf_permit_set_affinity,
    gf_permit_set_mempolicy,
    gf_permit_mbind,
    gf_permit_reset_range, /* pkey_mprotect and munlock of the library's or the driver's pages */
    gf_permit_io_priority, /* ioprio_get and ioprio_set */
    gf_permit_priority,    /* setpriority, sched_getscheduler and sched_setscheduler */
    gf_permit_huge_pages,  /* prctl(PR_SET_THP_DISABLE) */
    GF_PERMITS
};
#define GF_PERMIT_READING ((1U << gf_permit_set_affinity) - 1U)
#define GF_PERMIT_ALL ((1U << GF_PERMITS) - 1U)

bool gf_permit(enum gf_permit call);

/* Permits only the calls whose bits are set. */
void gf_permit_only(unsigned calls);

/*
 * Seals the process. Called before the program installs a seccomp filter, sets no_new_privs, which
 * programs usually set before they install a filter, or calls prctl(PR_SET_TSC). In a sealed process, none of the calls
 * above is permitted, and the library opens no file of /proc or /sys.
 */
void gf_permit_seal(void);
bool gf_permit_sealed(void);

/*
 * Returns the word whose bits are the permitted calls. gf_permit_share makes the engine use the
 * preload library's word.
 */
_Atomic unsigned *gf_permit_word(void);
void gf_permit_share(_Atomic unsigned *word);

/*
 * permit_find.c: permits those of the calls `wanted`, a set of bits, that the seccomp filters of the
 * calling thread allow. Without a filter, all wanted calls are permitted.
 * With a filter, child processes try the calls. If the filter kills for a call, it kills a child
 * instead of this process; the audit log shows such a child. Opens a file. Keeps errno.
 */
void gf_permit_find(unsigned wanted);
