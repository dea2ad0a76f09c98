/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding before exec: this process binds itself, so that the program that takes its place is on
 * the right node from its first instruction and its first page.
 */
#ifndef GF_CLI_EARLY_H
#define GF_CLI_EARLY_H

#include "cli/certain.h"
#include "cli/env.h"

struct gf_early {
    bool known; /* there is a verdict; else certain.why says why not */
    bool bound; /* carried out and read back (never for a dry run) */
    struct gf_certain certain;
    struct gf_verdict verdict;
    char note[160]; /* what the system refused; "" */
};

/*
 * Decides with the options that env holds. Unless dry, binds the calling thread, the only one, and
 * puts the hint for the library into env. Whatever fails leaves mask and policy as they were.
 */
void gf_early_bind(struct gf_env *env, const struct gf_options *options, bool dry,
                   struct gf_early *ret);

#endif
