/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts to watch for stalls, and opens the log if GPUFEED_LOG is set. With GPUFEED_LOG, every
 * process watches for stalls. Without it, only processes that have initialised CUDA do so.
 */
#ifndef GF_PRELOAD_HOOK_ATTACH_LOGGING_H
#define GF_PRELOAD_HOOK_ATTACH_LOGGING_H

/*
 * Called after the first successful cuInit. Starts to watch for stalls, and opens the log if it is
 * not open.
 */
void gf_logging_cuda(void);

/* Called on the library's thread after the engine was published. Starts the log's writer thread. */
void gf_logging_serve(void);

/*
 * Called near the end of the process. Logs the marks of steps that are not logged yet, and writes
 * all lines.
 */
void gf_logging_finish(void);

#endif
