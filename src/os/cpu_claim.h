/* SPDX-License-Identifier: Apache-2.0 */
/* Claims on CPUs between processes; idle states. */
#pragma once

#include "base/cpus.h"

/*
 * Counts the processes of this user whose copying threads use the same CPUs, so that each of them
 * may use a share. Each process holds a read lock on one byte of a file in /sys. The byte's offset
 * consists of a hash of the set of CPUs and the id of the thread that holds the lock. No file is
 * created or changed, and the kernel releases the lock when the process ends.
 *
 * Any user may lock bytes of the file. So a lock counts only if /proc shows that this thread belongs
 * to the same user, and holds it. Processes in other PID namespaces are not visible there, and those
 * in other network namespaces have another /sys; neither are counted. Locks of another user can
 * only hide claims: then CPUs are shared as without claims. So it is once a count took 0.1 s of CPU
 * time, because another user holds very many locks.
 */

struct gf_cpu_claim {
    uint64_t at; /* offset of the locked byte; 0: none */
};

/*
 * Moves the claim to this set of CPUs, and returns the number of processes that claim the same set,
 * including the calling one. Returns 0 if the number is unknown, for example without /sys.
 *
 * The descriptor stays open in the table of the serving thread (os/own_table.h). A process without
 * such a thread claims nothing. Claims are released in
 * no other way than by the end of the process; a forked child has none. Takes about 20 us. Keeps
 * errno.
 */
unsigned gf_cpu_claim_count(struct gf_cpu_claim *claim, const struct gf_cpus *cpus);

/* Sets the kernel's limit on the idle states of CPUs (PM QoS). */

#define GF_IDLE_STATES_DEVICE "/dev/cpu_dma_latency"

/*
 * Prevents all CPUs of the host from entering idle states that take longer than longest_us to
 * leave. Opens a descriptor in the calling thread's table, and leaves it open, because closing it
 * ends the limit. Returns 0 or -errno.
 */
int gf_idle_states_limit(int longest_us);
