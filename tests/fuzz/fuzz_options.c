/* SPDX-License-Identifier: Apache-2.0 */
/* An environment, one entry a line: values that are kept would be accepted, and lines end. */
#include "fuzz.h"

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
    gf_options_complain(envp, size % 2, see_line, NULL);
    for (size_t i = 0; i < gf_option_row_count; i++) {
        const char *value = gf_options_text(&options, &gf_option_rows[i], buf, sizeof(buf));
        CHECK(gf_option_check(&gf_option_rows[i], value) == 0);
    }
    free(text);
    return 0;
}
