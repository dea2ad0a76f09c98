/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/finding.h"

#include "cli/common/cli.h"

#include <stdarg.h>
#include <stdio.h>

/*
 * Replaces each character that is not printable ASCII, because a file may hold any bytes. JSON
 * allows only UTF-8, and a terminal interprets control characters.
 */
GF_PRINTF(3, 0)
static void format_printable(char *ret, size_t size, const char *format, va_list args)
{
    vsnprintf(ret, size, format, args);
    for (; *ret; ret++)
        if (*ret < ' ' || *ret > '~')
            *ret = '?';
}

struct gf_finding *gf_finding_add(struct gf_findings *findings, enum gf_status status,
                                  const char *format, ...)
{
    va_list args;

    static struct gf_finding dropped; /* the caller may write to it */
    const bool fits = findings->count < GF_ARRAY_LEN(findings->list);
    struct gf_finding *finding = fits ? &findings->list[findings->count++] : &dropped;
    *finding = (struct gf_finding){.status = status};
    va_start(args, format);
    format_printable(finding->summary, sizeof(finding->summary), format, args);
    va_end(args);
    if (!fits)
        gf_cli_error("doctor", "a finding is dropped, because there are more than %zu: %s",
                     GF_ARRAY_LEN(findings->list), finding->summary);
    return finding;
}

void gf_finding_evidence(struct gf_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_printable(finding->evidence, sizeof(finding->evidence), format, args);
    va_end(args);
}

void gf_finding_fix(struct gf_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->fix, sizeof(finding->fix), format, args);
    va_end(args);
}

void gf_finding_unreadable(struct gf_findings *findings, const char *subject, const char *file)
{
    gf_finding_add(findings, gf_status_unknown, "%s: /%s cannot be read", subject, file);
}
