/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are watched for stalls: with GPUFEED_LOG every process, otherwise those that
 * initialised CUDA.
 */
#ifndef GF_PRELOAD_HOOK_ATTACH_LOGGING_H
#define GF_PRELOAD_HOOK_ATTACH_LOGGING_H

/* Called after the first successful cuInit. Opens the log unless the start opened it. */
void gf_logging_cuda(void);

/*
 * Called on the library's thread once the engine is published. Starts the thread that writes the
 * log.
 */
void gf_logging_serve(void);

/*
 * Called near the end of the process. Logs the remaining events, and writes all lines
 * (gf_journal_finish).
 */
void gf_logging_finish(void);

#endif
