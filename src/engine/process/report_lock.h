/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of gf_process.report. The library's thread may hold it during a sample, so a thread of
 * the program waits for it only for a limited time. If the process forks while the lock is held,
 * the lock stays locked in the child. This is harmless, because the engine does nothing in the
 * child.
 */
#ifndef GF_ENGINE_PROCESS_REPORT_LOCK_H
#define GF_ENGINE_PROCESS_REPORT_LOCK_H

#include <stdbool.h>

/*
 * Takes the lock. Waits up to wait_ms milliseconds; 0: does not wait. Returns false if another
 * thread held the lock during this time.
 */
bool gf_report_lock(unsigned wait_ms);
void gf_report_unlock(void);

#endif
