/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's limit on the idle states of CPUs (PM QoS). */
#ifndef GF_OS_IDLE_STATES_H
#define GF_OS_IDLE_STATES_H

#define GF_IDLE_STATES_DEVICE "/dev/cpu_dma_latency"

/*
 * Keeps all CPUs of the host from idle states that take longer than longest_us to leave. The
 * descriptor stays open in the calling thread's table, because closing it ends the limit. 0 or
 * -errno.
 */
int gf_idle_states_limit(int longest_us);

#endif
