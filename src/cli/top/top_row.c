/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_row.h"

#include "cli/top/columns.h"

#include <string.h>

#define LINE_MAX_BYTES 640
#define MIB (double)(1 << 20)

/* Removes the folder of the program from a command line. */
static const char *without_folder(const char *command)
{
    const char *ret = command;

    for (const char *p = command; *p && *p != ' '; p++)
        if (*p == '/')
            ret = p + 1;
    return ret;
}

static void put_time(char *ret, size_t size, double seconds)
{
    const unsigned long all = seconds > 0 && seconds < 1e9 ? (unsigned long)seconds : 0;
    snprintf(ret, size, "%lu:%02lu:%02lu", all / 3600, all / 60 % 60, all % 60);
}

static void put_cause(char *ret, const char *cause)
{
    snprintf(ret, GF_COLUMN_TEXT, "%s", *cause ? cause : "-");
}

static void fill_cells(pid_t pid, const struct gf_process_figures *figures, struct gf_cells *ret)
{
    char(*const text)[GF_COLUMN_TEXT] = ret->text;

    snprintf(text[gf_column_pid], GF_COLUMN_TEXT, "%d", pid);
    snprintf(text[gf_column_rank], GF_COLUMN_TEXT, figures->rank < 0 ? "-" : "%lld",
             (long long)figures->rank);
    put_time(text[gf_column_ran], GF_COLUMN_TEXT, figures->ran_s);
    snprintf(text[gf_column_steps], GF_COLUMN_TEXT, "%.1f", figures->steps);
    snprintf(text[gf_column_idle], GF_COLUMN_TEXT, figures->idle < 0 ? "-" : "%.1f%%",
             100 * figures->idle);
    put_cause(text[gf_column_why_idle], figures->idle_cause);
    snprintf(text[gf_column_to_gpu], GF_COLUMN_TEXT, "%.0f", figures->to_device / MIB);
    snprintf(text[gf_column_from_gpu], GF_COLUMN_TEXT, "%.0f", figures->from_device / MIB);
    snprintf(text[gf_column_stalled], GF_COLUMN_TEXT, "%.1f%%", 100 * figures->stalled);
    put_cause(text[gf_column_most_time], figures->stall_cause);
    snprintf(text[gf_column_bound], GF_COLUMN_TEXT, "%s", figures->is_bound ? "yes" : "no");
}

static void print_figures(FILE *out, const struct gf_snapshot *snapshot,
                          const struct gf_top_history *history, unsigned width)
{
    const bool fits_gpu = gf_columns_fit_gpu(width);
    struct gf_process_figures figures;
    struct gf_cells cells;
    char program[384];

    gf_process_figures_read(snapshot, history, &figures);
    fill_cells(snapshot->pid, &figures, &cells);
    snprintf(program, sizeof(program), "%s%s%s%s",
             snapshot->source == gf_snapshot_file ? "(report file) " : "",
             fits_gpu ? figures.gpu : "", fits_gpu && *figures.gpu ? ", " : "",
             fits_gpu ? figures.command : without_folder(figures.command));
    gf_columns_print(out, &cells, program, width);
}

void gf_top_row_print(FILE *out, const struct gf_snapshot *snapshot,
                      const struct gf_top_history *history, unsigned width)
{
    char line[LINE_MAX_BYTES];

    if (snapshot->report) {
        print_figures(out, snapshot, history, width);
        return;
    }
    snprintf(
        line, sizeof(line), "%7d  %s", snapshot->pid,
        snapshot->source == gf_snapshot_newer
            ? "has a later version of the library; use the gpufeed command of that version"
            : "has no figures yet, or they cannot be read; set GPUFEED_LIVE=on or GPUFEED_REPORT");
    gf_columns_print_line(out, line, width);
}
