/* SPDX-License-Identifier: Apache-2.0 */
/* An environment with one entry per line: stored values are valid, and each warning is one line. */
#include "fuzz.h"

#include "config/option_text.h"
#include "config/options.h"

#define ENTRIES 32

static void see_line(void *closure, const char *line)
{
    (void)closure;
    CHECK(strlen(line) < 512);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gf_options options;
    char *envp[ENTRIES + 1] = {NULL}, buf[64];
    char *text = as_text(data, size), *rest = text;

    for (size_t i = 0; i < ENTRIES && (envp[i] = strsep(&rest, "\n")); i++)
        continue;
    gf_options_load(&options, envp);
    gf_validate_environment(envp, size % 2, see_line, NULL);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const char *value = gf_option_text_value(&options, &gf_option_rows[i], buf, sizeof(buf));
        CHECK(gf_option_check(&gf_option_rows[i], value) == 0);
    }
    free(text);
    return 0;
}
