/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_BOUND, which any process may have set: an accepted value, printed and parsed again, is
 * the same.
 */
#include "fuzz.h"

#include "host/hint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gf_hint hint, again;
    static char entry[GF_HINT_MAX];
    char *text = as_text(data, size);

    if (gf_hint_parse(text, &hint) == 0) {
        CHECK(gf_hint_format(&hint, entry, sizeof(entry)) > 0);
        CHECK(gf_hint_parse(strchr(entry, '=') + 1, &again) == 0);
        CHECK(hint.pid == again.pid && hint.policy == again.policy);
        CHECK(gf_set_equal(&hint.was, &again.was) && gf_set_equal(&hint.set, &again.set));
        CHECK(gf_set_equal(&hint.nodes, &again.nodes));
    }
    free(text);
    return 0;
}
