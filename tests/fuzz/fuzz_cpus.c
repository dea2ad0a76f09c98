/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs: an accepted list, printed and parsed again, is the same set. */
#include "fuzz.h"

#include "base/cpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gf_cpus set, again;
    static char list[5 * GF_CPUS_MAX], cut[12];
    char *text = as_text(data, size);

    memset(&set, 0xa5, sizeof(set));
    if (gf_set_parse(text, &set) == 0) {
        gf_set_format(&set, list, sizeof(list));
        CHECK(gf_set_parse(list, &again) == 0);
        CHECK(gf_set_equal(&set, &again));
        gf_set_format(&set, cut, sizeof(cut));
        CHECK(memchr(cut, '\0', sizeof(cut)));
    } else {
        for (size_t i = 0; i < sizeof(set); i++)
            CHECK(((unsigned char *)&set)[i] == 0xa5);
    }
    free(text);
    return 0;
}
