/* SPDX-License-Identifier: Apache-2.0 */
#include "config/names.h"

#include "base/parse.h"

#include <string.h>

bool gf_name_is_internal(const char *name)
{
    static const char *const service[] = {"GPUFEED_SERVICE_", "GPUFEED_PORT_"};
    static const char *const whole[] = {GF_NAME_BOUND, GF_NAME_ENGINE, GF_NAME_RUN, "GPUFEED_PORT"};

    for (size_t i = 0; i < GF_ARRAY_LEN(service); i++)
        if (strncmp(name, service[i], strlen(service[i])) == 0)
            return true;
    for (size_t i = 0; i < GF_ARRAY_LEN(whole); i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    return false;
}

const char *gf_name_split(const char *entry, char *name, size_t size)
{
    static const char prefix[] = "GPUFEED";
    const size_t prefix_length = sizeof(prefix) - 1;

    if (!gf_same_start(entry, prefix, prefix_length) ||
        (entry[prefix_length] != '=' && entry[prefix_length] != '_'))
        return NULL;
    const char *equals = strchr(entry, '=');
    if (!equals)
        return NULL;
    const size_t length = gf_min((size_t)(equals - entry), size - 1);
    memcpy(name, entry, length);
    name[length] = '\0';
    return equals + 1;
}
