/* SPDX-License-Identifier: Apache-2.0 */
/* Whether it is certain, before a program starts, which GPU or at least which node it will use. */
#ifndef GF_CLI_CERTAIN_H
#define GF_CLI_CERTAIN_H

#include "cli/visible.h"
#include "config/options.h"
#include "host/facts.h"
#include "host/machine.h"
#include "place/verdict.h"

struct gf_certain {
    struct gf_gpu gpus[GF_VISIBLE_MAX];
    size_t count;  /* 0: not certain, or none */
    char why[192]; /* "the only visible GPU", or why it is not certain; always set */
};

/*
 * Certain is: one GPU is visible; or as many as the launcher says there are ranks on this host, and
 * the list's order is known; or all visible ones are near the same nodes, which is as good unless
 * ranks are to share a node's cores among themselves.
 */
void gf_certain_find(const struct gf_machine *machine, const struct gf_visible *visible,
                     const struct gf_rank *rank, enum gf_bind bind, struct gf_certain *ret);

#endif
