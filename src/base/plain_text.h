/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from a text the characters that would change a terminal's state. */
#ifndef GF_BASE_PLAIN_TEXT_H
#define GF_BASE_PLAIN_TEXT_H

/*
 * Replaces each byte of these characters by '?', in place: control characters (C0, DEL and C1),
 * marks of text direction, line separators, and invalid UTF-8. Returns text.
 */
char *gf_plain_text(char *text);

#endif
