/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/event.h"

#include <string.h>

static const struct field {
    const char *name;
    size_t length, offset;
} fields[] = {
#define GF_EVENT_ROW(field) {#field, sizeof(#field) - 1, offsetof(struct gf_event, field)},
    GF_EVENT_FIELDS(GF_EVENT_ROW)
#undef GF_EVENT_ROW
};

static struct gf_span *member(struct gf_event *event, struct gf_span key)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(fields); i++)
        if (fields[i].length == key.size && *fields[i].name == *key.at &&
            memcmp(fields[i].name, key.at, key.size) == 0)
            return (struct gf_span *)(void *)((char *)event + fields[i].offset);
    return NULL;
}

bool gf_event_read(struct gf_span text, struct gf_event *ret)
{
    struct gf_scan scan = gf_scan_begin(text, '{');
    struct gf_span key, value;

    *ret = (struct gf_event){0};
    while (gf_scan_member(&scan, &key, &value)) {
        struct gf_span *at = member(ret, key);
        if (at)
            *at = value;
    }
    return gf_scan_ended(&scan);
}

double gf_event_time(const struct gf_event *event)
{
    const double time = gf_span_number(event->time);
    return time >= 0 && time < GF_TIME_MAX ? time : 0;
}

bool gf_event_is(const struct gf_event *event, const char *kind)
{
    const struct gf_span value = event->event;

    return value.size == strlen(kind) + 2 && *value.at == '"' &&
           memcmp(value.at + 1, kind, value.size - 2) == 0;
}
