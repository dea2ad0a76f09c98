/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void gf_progress_begin(struct gf_progress *progress, size_t total)
{
    *progress = (struct gf_progress){.on = isatty(STDERR_FILENO) == 1, .total = total};
    if (progress->on)
        progress->due_ns = now_ns() + 500000000;
}

void gf_progress_show(struct gf_progress *progress, size_t done, uint64_t bytes)
{
    if (!progress->on || now_ns() < progress->due_ns)
        return;
    fprintf(stderr, "\rread %zu of %zu files, %llu MB", done, progress->total,
            (unsigned long long)(bytes / 1000000));
    progress->shown = true;
    progress->due_ns = now_ns() + 200000000;
}

void gf_progress_end(struct gf_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
