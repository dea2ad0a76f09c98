/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and sizes: a number without a unit is also that size, and a refused text leaves the value
 * unchanged.
 */
#include "fuzz.h"

#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t number = 42, bytes = 43;
    char *text = as_text(data, size);

    const int as_number = gf_parse_u64(text, &number);
    const int as_size = gf_parse_size(text, &bytes);
    if (as_number == 0) {
        CHECK(as_size == 0 && bytes == number);
        CHECK(*text >= '0' && *text <= '9');
    } else {
        CHECK(number == 42);
    }
    CHECK(as_size == 0 || bytes == 43);
    free(text);
    return 0;
}
