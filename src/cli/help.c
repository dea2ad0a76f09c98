/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include "base/parse.h"
#include "cli/common/cli.h"

void gf_help_print(FILE *out, const struct gf_verbs *verbs)
{
    fputs("Usage: gpufeed VERB [options]\n\n"
          "Runs an unmodified program with libgpufeed, which places the program's threads and "
          "memory\n"
          "on the GPU's NUMA node, speeds up copies of pageable memory, and serves malloc from a\n"
          "tuned jemalloc: gpufeed run -- python train.py\n\n",
          out);
    for (size_t i = 0; i < verbs->count; i++)
        fprintf(out, "  %-14s%s\n", verbs->list[i].name, verbs->list[i].brief);
    fputs("\n`gpufeed help VERB` shows a verb's flags; gpufeed(1) is the manual.\n", out);
}

int gf_help_unknown_verb(const struct gf_verbs *verbs, const char *name)
{
    struct gf_nearest_word nearest;

    gf_nearest_word_begin(&nearest, name);
    for (size_t i = 0; i < verbs->count; i++)
        gf_nearest_word_try(&nearest, verbs->list[i].name, verbs->list[i].name);
    if (nearest.found)
        gf_cli_error("", "%s is not a verb (did you mean %s?)", name, nearest.found);
    else
        gf_cli_error("",
                     "%s is not a verb; `gpufeed help` lists them, and `gpufeed run -- COMMAND` "
                     "runs a program",
                     name);
    return GF_EXIT_USAGE;
}
