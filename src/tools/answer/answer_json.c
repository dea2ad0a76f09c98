/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/formats.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"

static json_t *texts(const struct gf_lines *lines, size_t most)
{
    return GF_JSON_LIST(i, gf_min(lines->count, most), gf_json_text(lines->list[i]));
}

static json_t *count_of(double number)
{
    return json_integer(number > 0 && number < 9e18 ? (json_int_t)number : 0);
}

static json_t *number_or_zero(double number)
{
    return json_real(isfinite(number) ? number : 0);
}

static json_t *input_of(const struct gf_read_counts *counts)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "logs", (json_int_t)counts->logs,
                     "reports", (json_int_t)counts->reports, "doctors", (json_int_t)counts->doctors,
                     "empty", (json_int_t)counts->empty, "foreign", (json_int_t)counts->foreign,
                     "lines", (json_int_t)counts->lines, "damaged", (json_int_t)counts->damaged,
                     "bytes", (json_int_t)counts->bytes);
}

static json_t *job_of(const struct gf_answer *answer)
{
    return json_pack(
        "{s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "from",
        gf_json_number(answer->from, answer->from > 0), "to",
        gf_json_number(answer->to, answer->to > 0), "ranks", (json_int_t)answer->table.count,
        "hosts", (json_int_t)answer->hosts, "processes", (json_int_t)answer->processes, "running",
        (json_int_t)answer->running, "delay_ms", (json_int_t)answer->delay_ms, "throttled_ms",
        (json_int_t)answer->throttled_ms, "fault_ms", (json_int_t)answer->fault_ms);
}

static json_t *stalls_of(const struct gf_answer *answer)
{
    const struct gf_onset *onset = &answer->onset;
    const bool known = onset->at > 0;

    return json_pack("{s:I,s:I,s:I,s:o,s:o,s:o}", "count", (json_int_t)answer->stalls, "us",
                     (json_int_t)answer->stall_us, "longest_us", (json_int_t)answer->longest_us,
                     "onset", gf_json_number(onset->at, known), "onset_factor",
                     gf_json_number(onset->factor, known), "onset_step",
                     known && onset->step > 0 ? json_integer(onset->step) : json_null());
}

static json_t *json_row_of(const struct gf_answer *answer, const struct gf_tally *tally,
                           const struct gf_tally_row *row)
{
    const char *name = gf_tally_label(answer->job, tally->by, row->key);
    const char *mostly =
        row->main_us ? gf_tally_label(answer->job, tally->second, row->main) : NULL;

    return json_pack("{s:o,s:I,s:I,s:I,s:f,s:f,s:o}", "name", gf_json_text(name), "count",
                     (json_int_t)row->count, "us", (json_int_t)row->us, "longest_us",
                     (json_int_t)row->longest_us, "first", row->first, "last", row->last, "mostly",
                     gf_json_text(mostly));
}

static json_t *table_of(const struct gf_answer *answer, const struct gf_tally *tally, unsigned top)
{
    return json_pack(
        "{s:s,s:I,s:o}", "by", gf_by_names[tally->by], "total", (json_int_t)tally->count, "rows",
        GF_JSON_LIST(i, gf_min(tally->count, top), json_row_of(answer, tally, &tally->rows[i])));
}

static json_t *tables_of(const struct gf_answer *answer, unsigned top, enum gf_by wanted)
{
    json_t *list = json_array();

    for (enum gf_by by = 0; by < GF_BY_COUNT; by++) {
        if (wanted != GF_BY_COUNT && wanted != by)
            continue;
        /* The list answer->causes also contains stalls of processes without a log. */
        const bool is_kept = by == GF_BY_CAUSE;
        const struct gf_tally tally =
            is_kept ? answer->causes : gf_tally(answer->job, by, GF_BY_CAUSE);
        json_array_append_new(list, table_of(answer, &tally, top));
        if (!is_kept)
            free(tally.rows);
    }
    return list;
}

static json_t *step_of(const struct gf_answer *answer, const struct gf_step *step)
{
    const struct gf_job_process *process = &answer->job->processes[step->process];

    return json_pack("{s:I,s:I,s:I,s:f,s:f,s:I,s:o}", "step", (json_int_t)step->step, "rank",
                     (json_int_t)process->rank, "pid", (json_int_t)process->pid, "at", step->at,
                     "s", step->s, "stall_us", (json_int_t)step->stall_us, "reason",
                     gf_json_text(gf_step_reason(process, step)));
}

static json_t *steps_of(const struct gf_answer *answer, unsigned top)
{
    const struct gf_steps *steps = &answer->steps;

    return json_pack("{s:I,s:I,s:o,s:o}", "ended", (json_int_t)steps->ended, "slow",
                     (json_int_t)steps->slow, "median_s",
                     gf_json_number(steps->median_s, steps->ended > 0), "rows",
                     GF_JSON_LIST(i, gf_min(steps->ended, top), step_of(answer, &steps->list[i])));
}

static json_t *reported_of(const struct gf_answer *answer, const struct gf_reported_steps *steps)
{
    const struct gf_job_process *process = &answer->job->processes[steps->process];

    return json_pack("{s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "rank",
                     (json_int_t)process->rank, "pid", (json_int_t)process->pid, "source",
                     gf_json_text(steps->source), "copy_bytes",
                     steps->copy_bytes > 0 ? count_of(steps->copy_bytes) : json_null(), "count",
                     count_of(steps->steps), "p50_s", number_or_zero(steps->p50_s), "p99_s",
                     number_or_zero(steps->p99_s), "max_s", number_or_zero(steps->max_s),
                     "data_wait_s", gf_json_number(steps->data_wait_s, steps->data_wait_s >= 0),
                     "slow", count_of(steps->slow), "difference", gf_json_text(steps->difference));
}

static json_t *rank_of(const struct gf_answer *answer, const struct gf_rank_row *row)
{
    const double rate = gf_copy_rate(&row->to_device);

    return json_pack("{s:I,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:b}", "rank", (json_int_t)row->rank,
                     "host", gf_json_text(gf_job_text(answer->job, row->host)), "processes",
                     (json_int_t)row->processes, "stalls", (json_int_t)row->stalls, "stall_s",
                     number_or_zero(row->stall_s), "delay_s", number_or_zero(row->delay_s),
                     "step_s", gf_json_number(row->step_s, row->step_s > 0), "gpu_empty_share",
                     gf_json_number(row->gpu_empty_s / gf_max(row->gpu_s, 1e-9), row->gpu_s > 0),
                     "gb_per_s", gf_json_number(rate, rate > 0), "differs", row->excess_s > 0);
}

static json_t *sum_of(const struct gf_copy_sum *sum)
{
    const double rate = gf_copy_rate(sum);

    return json_pack("{s:o,s:o,s:f,s:o}", "calls", count_of(sum->calls), "bytes",
                     count_of(sum->bytes), "duration_s", sum->duration_s, "gb_per_s",
                     gf_json_number(rate, rate > 0));
}

static json_t *direction_of(const struct gf_copies *copies, int direction)
{
    const struct gf_copy_reason *list = copies->reasons[direction];
    json_t *row = json_object();

    json_object_set_new(row, "direction", json_string(gf_direction_names[direction]));
    for (int way = 0; way < GF_WAYS; way++)
        json_object_set_new(row, gf_way_names[way], sum_of(&copies->ways[direction][way]));
    json_object_set_new(
        row, "reasons",
        GF_JSON_LIST(i, copies->reason_count[direction],
                     json_pack("{s:o,s:s,s:o,s:o}", "reason", gf_json_text(list[i].name), "words",
                               gf_help_words(gf_help_reason, list[i].name), "calls",
                               count_of(list[i].sum.calls), "bytes", count_of(list[i].sum.bytes))));
    return row;
}

static json_t *gpu_of(const struct gf_answer *answer)
{
    json_t *map = json_object();

    for (unsigned i = 0; i < answer->gpu_count; i++)
        json_object_set_new(map, answer->gpu[i].name,
                            json_real(answer->gpu[i].sum / answer->gpu[i].count));
    return map;
}

json_t *gf_answer_json(const struct gf_answer *answer, unsigned top, enum gf_by by, size_t most)
{
    const struct gf_copies *copies = &answer->copies;
    const struct gf_reported_list *reported = &answer->reported_steps;

    return json_pack(
        "{s:i,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f,s:o,s:o}", "schema",
        GF_ANSWER_SCHEMA, "version", GF_VERSION, "verdict", texts(&answer->verdict, most),
        "differing", texts(&answer->differing, most), "helps", texts(&answer->helps, most), "notes",
        texts(&answer->notes, most), "input", input_of(answer->counts), "job", job_of(answer),
        "stalls", stalls_of(answer), "tables", tables_of(answer, top, by), "steps",
        steps_of(answer, top), "ranks",
        GF_JSON_LIST(i, gf_min(answer->table.count, most), rank_of(answer, &answer->table.rows[i])),
        "copies",
        GF_JSON_LIST(i, copies->reports ? GF_DIRECTIONS : 0, direction_of(copies, (int)i)),
        "pinning_saves_at_most_s", copies->pinning_saves_s, "gpu_time", gpu_of(answer),
        "reported_steps",
        GF_JSON_LIST(i, gf_min(reported->count, top), reported_of(answer, &reported->list[i])));
}
