/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/pinned_stats.h"

#include "base/fmt.h"
#include "base/log.h"
#include "transfer/large.h"
#include "transfer/small.h"

#include <string.h>

struct gf_pinned_stats gf_pinned_counts;

const char *gf_pinned_reason_name(enum gf_pinned_reason reason)
{
    static const char *const names[GF_PINNED_REASONS] = {
        [gf_pinned_odd] = "size or flags",
        [gf_pinned_context] = "context",
        [gf_pinned_memory] = "memory",
        [gf_pinned_slow] = "too few threads",
        [gf_pinned_devices] = "several GPUs",
        [gf_pinned_failed] = "off after a failure",
    };
    return names[reason];
}

void gf_pinned_read(struct gf_pinned_stats *ret)
{
    uint64_t *to = (uint64_t *)ret;
    const uint64_t *from = (const uint64_t *)&gf_pinned_counts;
    for (size_t i = 0; i < sizeof(*ret) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    ret->kept_bytes = gf_small_kept();
}

static void add(char *buf, size_t size, const char *what, uint64_t calls, uint64_t bytes)
{
    const size_t used = strlen(buf);
    if (calls)
        gf_fmt(buf + used, size - used, "%s%s %llu (%llu bytes)", used ? "; " : "", what,
               (unsigned long long)calls, (unsigned long long)bytes);
}

static void add_held(char *buf, size_t size)
{
    uint64_t held[GF_LARGE_NODES + 1];
    gf_large_held(held);
    for (size_t node = 0; node <= GF_LARGE_NODES; node++) {
        const size_t used = strlen(buf);
        if (held[node] && node < GF_LARGE_NODES)
            gf_fmt(buf + used, size - used, "; node %zu holds %llu bytes", node,
                   (unsigned long long)held[node]);
        else if (held[node])
            gf_fmt(buf + used, size - used, "; %llu bytes on several or unknown nodes",
                   (unsigned long long)held[node]);
    }
}

void gf_pinned_say(void)
{
    struct gf_pinned_stats s;
    char text[768] = "";

    if (!gf_log_wants(GF_LOG_DEBUG))
        return;
    gf_pinned_read(&s);
    add(text, sizeof(text), "large", s.large_calls, s.large_bytes);
    add(text, sizeof(text), "small", s.small_calls, s.small_bytes);
    for (unsigned why = 0; why < GF_PINNED_REASONS; why++)
        add(text, sizeof(text), gf_pinned_reason_name(why), s.driver_calls[why],
            s.driver_bytes[why]);
    add(text, sizeof(text), "placed before registering", s.placed_calls, s.placed_bytes);
    if (!*text)
        return;
    add_held(text, sizeof(text));
    gf_debug("pinned memory: %s; kept %llu bytes, given back %llu times", text,
             (unsigned long long)s.kept_bytes, (unsigned long long)s.trims);
}
