/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_GPUTIME_RUN_DELAY_H
#define GF_ENGINE_GPUTIME_RUN_DELAY_H

#include "base/base.h"

#include <sys/types.h>

/*
 * How long a thread of this process was runnable without a CPU until now, in ns; 0 if the kernel
 * does not tell. Reads a file, so it must be called in gf_measured_run.
 */
uint64_t gf_run_delay_read(pid_t tid);

#endif
