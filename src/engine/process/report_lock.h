/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of gf_process.report. The library's thread may hold it during a sample, so a thread of
 * the program waits for it only for a limited time. If the process is forked while the lock is
 * held, it stays locked in the child. That is harmless, because the child's engine is dead.
 */
#ifndef GF_ENGINE_PROCESS_REPORT_LOCK_H
#define GF_ENGINE_PROCESS_REPORT_LOCK_H

#include <stdbool.h>

/*
 * Tries for wait_ms milliseconds; 0 tries once. False if another thread holds the lock all that
 * time.
 */
bool gf_report_lock(unsigned wait_ms);
void gf_report_unlock(void);

#endif
