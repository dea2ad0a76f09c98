/* SPDX-License-Identifier: Apache-2.0 */
/* An event as text. */
#pragma once

#include "tools/job/event.h"
#include "tools/job/scan.h"

/* Frees the cache of stack texts. */
void gf_stall_text_end(void);

/*
 * Prints all fields of an event, and the date before the first event of a day. If the line is not an
 * event, prints nothing and returns false.
 */
bool gf_event_print(struct gf_span line);
