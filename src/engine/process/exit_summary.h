/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_PROCESS_EXIT_SUMMARY_H
#define GF_ENGINE_PROCESS_EXIT_SUMMARY_H

/*
 * Ends the engine at a normal exit: writes the last report, and prints the summary with
 * GPUFEED_VERBOSE=1. The caller holds the report lock.
 */
void gf_exit_summary_run(void);

/*
 * Ends the engine without a last report and summary. Called if another thread holds the report lock
 * for too long, for example because a file system does not respond. After the call, the engine
 * makes no query and replaces no file.
 */
void gf_exit_summary_skip(void);

#endif
