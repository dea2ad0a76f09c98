/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the report to `gpufeed top` (base/live_format.h), with GPUFEED_LIVE=on. */
#ifndef GF_ENGINE_PROCESS_LIVE_H
#define GF_ENGINE_PROCESS_LIVE_H

/*
 * Starts the thread "gpufeed-live", which renews the report in memory each second. If the option is
 * off, does nothing. If the thread cannot be started, prints a warning; without a file in memory,
 * `gpufeed top` shows the report's file. Called once, on the library's thread.
 */
void gf_live_start(void);

#endif
