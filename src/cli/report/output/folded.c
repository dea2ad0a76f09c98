/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/folded.h"

#include <stdlib.h>

/* A line of output: the sum of the stalls with these properties. */
struct line {
    int64_t key; /* value of the property `by`; 0 without --by */
    uint32_t stack, call, cause;
    uint64_t us;
};

static int by_line(const void *a, const void *b)
{
    const struct line *one = a, *other = b;

    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    if (one->stack != other->stack)
        return one->stack < other->stack ? -1 : 1;
    if (one->call != other->call)
        return one->call < other->call ? -1 : 1;
    return one->cause < other->cause ? -1 : one->cause > other->cause;
}

/* Replaces semicolons, because they separate frames. */
static void print_frame(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text == ';' ? ':' : *text, out);
}

static void print_line(FILE *out, const struct gf_job *job, const struct line *line, enum gf_by by)
{
    const struct gf_job_stack *stack = &job->stacks[line->stack];
    char label[1024];

    if (by != GF_BY_COUNT) {
        print_frame(out, gf_tally_label(job, by, line->key, label, sizeof(label)));
        fputc(';', out);
    }
    for (uint32_t i = 0; i < stack->count; i++) {
        print_frame(out, gf_job_text(job, job->frames[stack->frame + i]));
        fputc(';', out);
    }
    print_frame(out, gf_job_text(job, line->call));
    fputs(" (", out);
    print_frame(out, gf_job_text(job, line->cause));
    fprintf(out, ") %llu\n", (unsigned long long)line->us);
}

bool gf_folded_print(FILE *out, const struct gf_job *job, enum gf_by by)
{
    struct line *lines = calloc(job->stall_count + 1, sizeof(*lines));
    size_t count = 0;

    if (!lines)
        return false;
    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        lines[i] = (struct line){by == GF_BY_COUNT ? 0 : gf_tally_key(job, stall, by), stall->stack,
                                 stall->call, stall->cause, stall->us};
    }
    qsort(lines, job->stall_count, sizeof(*lines), by_line);
    for (size_t i = 0; i < job->stall_count; i++) {
        if (count && by_line(&lines[count - 1], &lines[i]) == 0)
            lines[count - 1].us += lines[i].us;
        else
            lines[count++] = lines[i];
    }
    for (size_t i = 0; i < count; i++)
        if (lines[i].us)
            print_line(out, job, &lines[i], by);
    free(lines);
    return true;
}
