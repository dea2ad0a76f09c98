/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all fuzz targets: the function that libFuzzer calls, and checks that also work with
 * NDEBUG.
 */
#ifndef GF_TESTS_FUZZ_H
#define GF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Returns the input as a string, which the caller frees. */
static inline char *as_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
