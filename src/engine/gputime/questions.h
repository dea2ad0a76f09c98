/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries which streams have unfinished work. Only the sampler's thread calls gf_questions_ask.
 * During each query, gf_submit_table.asking names it, so that the stream or context does not end,
 * and no capture begins. Between two queries, both may happen.
 */
#pragma once

#include "abi/gputime_api.h"

struct gf_answers {
    bool asked;         /* false: nothing was queried, because a capture is open */
    unsigned questions; /* number of queries */
    /* Number of queries that failed because a stream or its context is broken or gone. */
    unsigned refused;
    /*
     * Before the first query: how many calls that submit work had begun, and how many submissions
     * went to streams without a slot.
     */
    uint64_t begun, unlisted;
    bool settled; /* true if no call that submits work was running at that time */
    struct gf_answer {
        bool has_context; /* the program submitted work to this device */
        bool failed;      /* a query failed, or there were too many streams to query */
        unsigned work;    /* bits of enum gf_work of the streams that are not empty */
        bool copies;      /* a thread is inside a blocking copy */
    } device[GF_SUBMIT_DEVICES];
};

void gf_questions_ask(const struct gf_cuda *cuda, struct gf_submit_table *table,
                      struct gf_answers *ret);

/* Whether the driver has the functions that the queries need. */
bool gf_questions_possible(const struct gf_cuda *cuda);
