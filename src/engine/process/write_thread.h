/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the writing of files on short-lived threads. A file system may stall, and the library's
 * thread must continue to watch the memory meanwhile.
 */
#ifndef GF_ENGINE_PROCESS_WRITE_THREAD_H
#define GF_ENGINE_PROCESS_WRITE_THREAD_H

#include "base/atomic.h"
#include "base/base.h"

struct gf_write_job {
    void (*write)(void); /* may wait, print and free; runs once at a time */
    _Atomic bool busy;
};

/* Whether the last write has not ended. */
bool gf_write_job_busy(const struct gf_write_job *job);

/*
 * Starts a write. The job must not be busy. If no thread can be started, or the process is sealed
 * (os/permit.h), the calling thread writes.
 */
void gf_write_job_start(struct gf_write_job *job);

/* Waits at most 2 s until the job is not busy. Returns false if it is still busy. */
bool gf_write_job_await(const struct gf_write_job *job);

#endif
