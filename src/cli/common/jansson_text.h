/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_COMMON_JANSSON_TEXT_H
#define GF_CLI_COMMON_JANSSON_TEXT_H

#include <jansson.h>

/* Returns the text as a JSON string, or JSON's null if the text is NULL, "" or not UTF-8. */
static inline json_t *gf_json_text(const char *text)
{
    json_t *string = text && *text ? json_string(text) : NULL;
    return string ? string : json_null();
}

#endif
