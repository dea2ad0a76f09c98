/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the program's pinned allocations, as a part of the report and of the summary. */
#ifndef GF_OBSERVE_REPORT_PINNED_H
#define GF_OBSERVE_REPORT_PINNED_H

#include "observe/json.h"
#include "observe/words.h"
#include "transfer/large.h"
#include "transfer/pinned_stats.h"

struct gf_pinned_report {
    struct gf_pinned_stats stats;
    uint64_t held[GF_LARGE_NODES + 1]; /* bytes in use by the node that they were touched from */
};

/* The value of "pinned_memory". */
void gf_pinned_report_put(struct gf_json *json, const struct gf_pinned_report *pinned);

/* A part of a line; nothing where nothing was served. */
void gf_pinned_report_say(struct gf_words *words, const struct gf_pinned_report *pinned);

/* Bytes by node, of which the last is that of no node. */
void gf_pinned_report_put_nodes(struct gf_json *json, const char *key,
                                const uint64_t bytes[GF_LARGE_NODES + 1]);

#endif
