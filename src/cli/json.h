/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_JSON_H
#define GF_CLI_JSON_H

#include <jansson.h>

/* null for NULL, for "", and for what is no UTF-8. */
static inline json_t *gf_json_text(const char *text)
{
    json_t *string = text && *text ? json_string(text) : NULL;
    return string ? string : json_null();
}

#endif
