/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_json.h"

#include "cli/common/jansson_text.h"

static const char *source_name(enum gf_snapshot_source source)
{
    return source == gf_snapshot_live    ? "live"
           : source == gf_snapshot_file  ? "report_file"
           : source == gf_snapshot_newer ? "later_version"
                                         : NULL;
}

json_t *gf_top_json_row(const struct gf_snapshot *snapshot, const struct gf_top_history *history)
{
    struct gf_process_figures figures;

    if (!snapshot->report)
        return json_pack("{s:i,s:o}", "pid", snapshot->pid, "source",
                         gf_json_text(source_name(snapshot->source)));
    gf_process_figures_read(snapshot, history, &figures);
    return json_pack("{s:i,s:o,s:o,s:f,s:f,s:o,s:o,s:f,s:f,s:f,s:o,s:b,s:o,s:o}", "pid",
                     snapshot->pid, "source", gf_json_text(source_name(snapshot->source)), "rank",
                     figures.rank < 0 ? json_null() : json_integer(figures.rank), "ran_s",
                     figures.ran_s, "steps_per_s", figures.steps, "idle_share",
                     figures.idle < 0 ? json_null() : json_real(figures.idle), "idle_cause",
                     gf_json_text(figures.idle_cause), "to_device_bytes_per_s", figures.to_device,
                     "from_device_bytes_per_s", figures.from_device, "stalled_share",
                     figures.stalled, "stall_cause", gf_json_text(figures.stall_cause), "bound",
                     figures.is_bound, "gpu", gf_json_text(figures.gpu), "command",
                     gf_json_text(figures.command));
}
