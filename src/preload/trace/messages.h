/* SPDX-License-Identifier: Apache-2.0 */
/* The start of messages on standard error, in a process that may print. */
#ifndef GF_PRELOAD_TRACE_MESSAGES_H
#define GF_PRELOAD_TRACE_MESSAGES_H

/*
 * Sets the level that GPUFEED_VERBOSE names, the file that was standard error at the start, and the
 * rank, which each line contains if there are several.
 */
void gf_messages_start(void);

#endif
