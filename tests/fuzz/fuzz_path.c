/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of GPUFEED_REPORT and GPUFEED_LOG: a path that fits is complete and terminated, for any
 * buffer size.
 */
#include "fuzz.h"

#include "base/path.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char whole[1 << 16];
    char *pattern = as_text(data, size);
    const int error = gf_path_expand(pattern, 4711, -1, whole, sizeof(whole));

    CHECK(error == 0 || error == -ENAMETOOLONG);
    if (!error) {
        const size_t length = strlen(whole);
        char *exact = malloc(length + 1);
        CHECK(exact && gf_path_expand(pattern, 4711, -1, exact, length + 1) == 0);
        CHECK(strcmp(exact, whole) == 0);
        CHECK(length == 0 || gf_path_expand(pattern, 4711, -1, exact, length) == -ENAMETOOLONG);
        free(exact);
    }
    free(pattern);
    return 0;
}
