/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_COMMON_JANSSON_TEXT_H
#define GF_CLI_COMMON_JANSSON_TEXT_H

#include <jansson.h>

/* A JSON string; null for NULL, for "" and for text that is not UTF-8. */
static inline json_t *gf_json_text(const char *text)
{
    json_t *string = text && *text ? json_string(text) : NULL;
    return string ? string : json_null();
}

#endif
