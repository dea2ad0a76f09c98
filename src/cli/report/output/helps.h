/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_HELPS_H
#define GF_CLI_REPORT_OUTPUT_HELPS_H

/* What helps against a stall's cause; "" if nothing is known. Static texts. */
const char *gf_cause_help(const char *cause);
/* A reason in words; the reason itself if it is not known. */
const char *gf_reason_words(const char *reason);
/* What helps against a reason; "" if nothing is known. */
const char *gf_reason_help(const char *reason);

/* A state of a GPU, and what a program did without work for it; a name that is not known stays. */
const char *gf_state_words(const char *state);
const char *gf_host_words(const char *cause);
const char *gf_host_help(const char *cause);

#endif
