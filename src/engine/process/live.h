/* SPDX-License-Identifier: Apache-2.0 */
/* With GPUFEED_LIVE=on, keeps the report in memory for `gpufeed top` (abi/formats.h). */
#ifndef GF_ENGINE_PROCESS_LIVE_H
#define GF_ENGINE_PROCESS_LIVE_H

/*
 * Starts the thread "gpufeed-live", which updates the report in memory each second. Does nothing if
 * the option is off. Prints a warning if the thread cannot be started; `gpufeed top` then shows the
 * file of GPUFEED_REPORT. Called once, on the library's thread.
 */
void gf_live_start(void);

#endif
