/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_row.h"

#include "cli/common/plain_text.h"
#include "cli/report/input/report_file.h"
#include "cli/top/columns.h"

#include <string.h>

#define LINE_MAX_BYTES 640
#define MIB (double)(1 << 20)

static double copied(const json_t *report, const char *direction)
{
    static const char *const ways[] = {"staged", "pinned", "driver", "other"};
    char path[64];
    double bytes = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(ways); i++) {
        snprintf(path, sizeof(path), "transfers.%s.%s.bytes", direction, ways[i]);
        bytes += gf_report_number(report, path);
    }
    return bytes;
}

/* Adds the times of all GPUs of the process to the sums. */
static void add_gpu_time(const json_t *report, struct gf_top_sums *ret)
{
    json_t *device, *state;
    const char *name;
    size_t i;

    json_array_foreach(gf_report_at(report, "gpu_time.devices"), i, device)
    {
        json_object_foreach(json_object_get(device, "states"), name, state) ret->gpu_s +=
            gf_report_number(state, "s");
        ret->gpu_empty_s += gf_report_number(device, "states.empty.s");
    }
}

void gf_top_history_add(struct gf_top_history *history, const struct gf_snapshot *snapshot)
{
    const json_t *report = snapshot->report;
    struct gf_top_sums now = {
        .seconds = gf_report_number(report, "ran_s"),
        .steps = gf_report_number(report, "steps.ended"),
        .to_device = copied(report, "to_device"),
        .from_device = copied(report, "from_device"),
        .stalls_us = gf_report_number(report, "stalls.us"),
    };

    add_gpu_time(report, &now);

    /* A new process may have the id of a process that has ended. */
    if (history->pid != snapshot->pid || now.seconds < history->now.seconds)
        *history = (struct gf_top_history){.pid = snapshot->pid};
    if (!report || now.seconds <= history->now.seconds)
        return;
    history->before = history->now;
    history->now = now;
}

/*
 * Copies to buf the name of the row whose number `field` is largest and exceeds *ret_most, and sets
 * *ret_most. If there is no such row, buf stays as it is.
 */
static void find_most(const json_t *rows, const char *field, double *ret_most, char *buf,
                      size_t size)
{
    const char *name;
    json_t *row;

    json_object_foreach((json_t *)(uintptr_t)rows, name, row)
    {
        const double value = gf_report_number(row, field);
        if (value > *ret_most) {
            *ret_most = value;
            snprintf(buf, size, "%s", name);
        }
    }
    gf_plain_text(buf);
}

/* Writes the cause with the most stalled time since the start. */
static void put_top_cause(const json_t *report, char *buf, size_t size)
{
    double most = 0;

    snprintf(buf, size, "-");
    find_most(gf_report_at(report, "stalls.causes"), "us", &most, buf, size);
}

/* Writes the cause for which a GPU had nothing to do for the longest time since the start. */
static void put_idle_cause(const json_t *report, char *buf, size_t size)
{
    json_t *device;
    double most = 0;
    size_t i;

    snprintf(buf, size, "-");
    json_array_foreach(gf_report_at(report, "gpu_time.devices"), i, device)
        find_most(gf_report_at(device, "causes"), "s", &most, buf, size);
}

static void put_rank(const json_t *report, char *buf, size_t size)
{
    const json_t *rank = gf_report_at(report, "start.rank.rank");
    const json_int_t number = json_is_integer(rank) ? json_integer_value(rank) : -1;

    snprintf(buf, size, number < 0 ? "-" : "%lld", (long long)number);
}

/* Writes the share of the GPUs' time without work between two reports. */
static void put_idle(const struct gf_top_sums *now, const struct gf_top_sums *before, char *buf,
                     size_t size)
{
    const double whole = now->gpu_s - before->gpu_s, empty = now->gpu_empty_s - before->gpu_empty_s;

    if (whole > 0)
        snprintf(buf, size, "%.1f%%", 100 * gf_max(0.0, gf_min(empty / whole, 1.0)));
    else
        snprintf(buf, size, "-");
}

/* Reads the command line, and separates its words by blanks. */
static void read_command(pid_t pid, char *ret, size_t size)
{
    char path[48];
    size_t length = 0;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (file) {
        length = fread(ret, 1, size - 1, file);
        fclose(file);
    }
    for (size_t i = 0; i < length; i++)
        if (!ret[i])
            ret[i] = ' ';
    while (length && ret[length - 1] == ' ')
        length--;
    ret[length] = '\0';
}

/* Removes the folder of the program from a command line. */
static const char *without_folder(const char *command)
{
    const char *ret = command;

    for (const char *p = command; *p && *p != ' '; p++)
        if (*p == '/')
            ret = p + 1;
    return ret;
}

/* fits_gpu: whether there is space for the GPU and the whole command line. */
static void format_program(const struct gf_snapshot *snapshot, bool fits_gpu, char *ret,
                           size_t size)
{
    char gpu[64] = "", command[256];
    const json_t *gpus = json_object_get(snapshot->report, "gpus");

    if (fits_gpu && json_array_size(gpus))
        gf_report_text(json_array_get(gpus, 0), "name", gpu, sizeof(gpu));
    read_command(snapshot->pid, command, sizeof(command));
    snprintf(ret, size, "%s%s%s%s", snapshot->source == gf_snapshot_file ? "(report file) " : "",
             gpu, *gpu ? ", " : "", fits_gpu ? command : without_folder(command));
}

static void put_time(char *ret, size_t size, double seconds)
{
    const unsigned long all = seconds > 0 && seconds < 1e9 ? (unsigned long)seconds : 0;
    snprintf(ret, size, "%lu:%02lu:%02lu", all / 3600, all / 60 % 60, all % 60);
}

static void fill_cells(const struct gf_snapshot *snapshot, const struct gf_top_history *history,
                       struct gf_cells *ret)
{
    const struct gf_top_sums now = history->now, from = history->before;
    const double passed = now.seconds > from.seconds ? now.seconds - from.seconds : 1;
    const bool is_bound = json_is_true(gf_report_at(snapshot->report, "binding.in_force"));
    char(*const text)[GF_COLUMN_TEXT] = ret->text;

    snprintf(text[gf_column_pid], GF_COLUMN_TEXT, "%d", snapshot->pid);
    put_rank(snapshot->report, text[gf_column_rank], GF_COLUMN_TEXT);
    put_time(text[gf_column_ran], GF_COLUMN_TEXT, now.seconds);
    snprintf(text[gf_column_steps], GF_COLUMN_TEXT, "%.1f", (now.steps - from.steps) / passed);
    put_idle(&now, &from, text[gf_column_idle], GF_COLUMN_TEXT);
    put_idle_cause(snapshot->report, text[gf_column_why_idle], GF_COLUMN_TEXT);
    snprintf(text[gf_column_to_gpu], GF_COLUMN_TEXT, "%.0f",
             (now.to_device - from.to_device) / passed / MIB);
    snprintf(text[gf_column_from_gpu], GF_COLUMN_TEXT, "%.0f",
             (now.from_device - from.from_device) / passed / MIB);
    snprintf(text[gf_column_stalled], GF_COLUMN_TEXT, "%.1f%%",
             (now.stalls_us - from.stalls_us) / passed / 1e4);
    put_top_cause(snapshot->report, text[gf_column_most_time], GF_COLUMN_TEXT);
    snprintf(text[gf_column_bound], GF_COLUMN_TEXT, "%s", is_bound ? "yes" : "no");
}

static void print_figures(FILE *out, const struct gf_snapshot *snapshot,
                          const struct gf_top_history *history, unsigned width)
{
    struct gf_cells cells;
    char program[384];

    fill_cells(snapshot, history, &cells);
    format_program(snapshot, gf_columns_fit_gpu(width), program, sizeof(program));
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
