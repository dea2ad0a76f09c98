/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the kernel's limit on the idle states of CPUs (PM QoS). */
#ifndef GF_OS_IDLE_STATES_H
#define GF_OS_IDLE_STATES_H

#define GF_IDLE_STATES_DEVICE "/dev/cpu_dma_latency"

/*
 * Prevents all CPUs of the host from entering idle states that take longer than longest_us to
 * leave. Opens a descriptor in the calling thread's table, and leaves it open, because closing it
 * ends the limit. Returns 0 or -errno.
 */
int gf_idle_states_limit(int longest_us);

#endif
