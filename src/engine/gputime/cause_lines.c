/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/cause_lines.h"

#include <sched.h>
#include <string.h>

#define TRIES 1000u

static bool lock_lines(struct gf_cause_lines *lines)
{
    for (unsigned i = 0; i < TRIES; i++) {
        bool locked = false;
        if (gf_cas_acquire(&lines->locked, &locked, true))
            return true;
        sched_yield();
    }
    return false;
}

void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns)
{
    lines->pending_ns[cause] += ns;
}

static bool is_same(const struct gf_cause_line *row, enum gf_host_cause cause,
                    const struct gf_python_line *at)
{
    return row->cause == cause && row->at.line == at->line && strcmp(row->at.file, at->file) == 0;
}

static struct gf_cause_line *row_of(struct gf_cause_lines *lines, enum gf_host_cause cause,
                                    const struct gf_python_line *at)
{
    for (unsigned i = 0; i < lines->count; i++)
        if (is_same(&lines->row[i], cause, at))
            return &lines->row[i];
    if (lines->count == GF_CAUSE_LINES)
        return NULL;
    struct gf_cause_line *row = &lines->row[lines->count++];
    *row = (struct gf_cause_line){.cause = cause, .at = *at};
    return row;
}

void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at)
{
    if (!lock_lines(lines))
        return;
    struct gf_cause_line *row = row_of(lines, cause, at);
    if (row)
        row->ns += lines->pending_ns[cause];
    lines->pending_ns[cause] = 0;
    gf_store_release(&lines->locked, false);
}

void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT])
{
    memset(ret, 0, sizeof(*ret) * GF_HOST_CAUSE_COUNT);
    if (!lock_lines(lines))
        return;
    for (unsigned i = 0; i < lines->count; i++) {
        struct gf_cause_line *most = &ret[lines->row[i].cause];
        if (!most->at.line || lines->row[i].ns > most->ns)
            *most = lines->row[i];
    }
    gf_store_release(&lines->locked, false);
}
