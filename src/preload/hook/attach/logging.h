/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches for stalls and opens the log: with GPUFEED_LOG in every process, otherwise in processes
 * that initialised CUDA.
 */
#ifndef GF_PRELOAD_HOOK_ATTACH_LOGGING_H
#define GF_PRELOAD_HOOK_ATTACH_LOGGING_H

/*
 * Called after the first successful cuInit. Starts watching, and opens the log if it is not open.
 */
void gf_logging_cuda(void);

/* Called on the library's thread after the engine was published. Starts the log's writer thread. */
void gf_logging_serve(void);

/* Called near the end of the process. Logs the remaining events, and writes all lines. */
void gf_logging_finish(void);

#endif
