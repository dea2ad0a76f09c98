/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/parts.h"

#include "base/fmt.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

/*
 * Formats the value in the largest unit in which it is at least 1. A result below 10 has one
 * decimal, unless this decimal is 0.
 */
static const char *with_unit(double value, const double *sizes, const char *const *units,
                             size_t count)
{
    size_t i = 0;

    while (i + 1 < count && value >= sizes[i + 1])
        i++;
    value /= sizes[i];
    const bool has_tenths = value > -9.95 && value < 9.95;
    const int tenths = has_tenths ? (int)(value * 10 + (value < 0 ? -0.5 : 0.5)) : 0;
    return gf_text(tenths % 10 ? "%.1f %s" : "%.0f %s", value, units[i]);
}

const char *gf_amount_time(double seconds)
{
    static const double sizes[] = {1e-6, 1e-3, 1, 3600};
    static const char *const units[] = {"us", "ms", "s", "h"};

    if (seconds >= 9.95 && seconds < 100)
        return gf_text("%.1f s", seconds);
    return with_unit(seconds, sizes, units, GF_ARRAY_LEN(sizes));
}

const char *gf_amount_bytes(double bytes)
{
    static const double sizes[] = {1, 1024, 1048576, 1073741824, 1099511627776};
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};

    return with_unit(bytes, sizes, units, GF_ARRAY_LEN(sizes));
}

const char *gf_amount_rate(double gb_per_s)
{
    if (gb_per_s < 0.1)
        return gf_text(gb_per_s < 0.00995 ? "%.1f MB/s" : "%.0f MB/s", 1000 * gb_per_s);
    return gf_text("%.1f GB/s", gb_per_s);
}

const char *gf_amount_share(double part, double whole)
{
    const double percent = whole > 0 ? 100 * part / whole : 0;
    return gf_text(percent < 9.95 ? "%.1f %%" : "%.0f %%", percent);
}

const char *gf_amount_clock(double time, bool with_date)
{
    const time_t second = (time_t)(time > 0 && time < 1e11 ? time : 0);
    struct tm local;
    char text[32] = "";

    if (second && localtime_r(&second, &local))
        strftime(text, sizeof(text), with_date ? "%F %H:%M:%S" : "%H:%M:%S", &local);
    return gf_text("%s", *text ? text : "-");
}

const char *gf_amount_of(double count, const char *noun)
{
    return gf_text("%.0f %s%s", count, noun, count > 0.5 && count < 1.5 ? "" : "s");
}

void gf_lines_add(struct gf_lines *lines, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    bool is_new;

    va_start(args, format);
    gf_cli_memory(vasprintf(&text, format, args) < 0 ? NULL : text);
    va_end(args);
    const uint32_t number =
        gf_text_pool_add(&lines->texts, gf_plain_text(text), strlen(text), &is_new);
    free(text);
    if (is_new)
        *GF_JOB_ADD(lines->list, lines->count) = gf_text_pool_get(&lines->texts, number);
}

void gf_lines_free(struct gf_lines *lines)
{
    free(lines->list);
    gf_text_pool_free(&lines->texts);
    *lines = (struct gf_lines){0};
}
