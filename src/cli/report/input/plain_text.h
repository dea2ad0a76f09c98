/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text from a log or a file harmless for a terminal. */
#ifndef GF_CLI_REPORT_INPUT_PLAIN_TEXT_H
#define GF_CLI_REPORT_INPUT_PLAIN_TEXT_H

/*
 * Replaces in place, byte by byte, with '?': control characters (C0, DEL and C1), marks that change
 * the direction of text, line separators, and bytes that are not UTF-8. Returns text.
 */
char *gf_plain_text(char *text);

#endif
