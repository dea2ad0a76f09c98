/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/summary.h"

#include "base/fmt.h"
#include "host/mempolicy.h"

#include <linux/mempolicy.h>
#include <string.h>

static const char *plural_s(unsigned count)
{
    return count == 1 ? "" : "s";
}

static void say_gpus(struct gf_textbuf *out, const struct gf_decision *decision)
{
    const struct gf_gpu *first = &decision->gpus[0];
    char nodes[128];

    if (decision->gpu_count == 1)
        gf_say(out, "GPU %d %s %s", first->device, first->name, first->bdf);
    else
        gf_say(out, "%zu GPUs (first %s %s)", decision->gpu_count, first->name, first->bdf);
    if (gf_set_empty(&decision->verdict.nodes))
        gf_say(out, " node unknown");
    else
        gf_say(out, " node %s", gf_set_format(&decision->verdict.nodes, nodes, sizeof(nodes)));
    if (decision->verdict.node_source)
        gf_say(out, " (%s)", decision->verdict.node_source);
}

static void say_threads(struct gf_textbuf *out, const struct gf_decision *decision)
{
    char cpus[256];
    const struct gf_threads *threads = &decision->threads;

    gf_say(out, "%u thread%s", threads->on_target, plural_s(threads->on_target));
    if (decision->bind.descendants)
        gf_say(out, " and %u worker thread%s", decision->bind.descendants,
               plural_s(decision->bind.descendants));
    gf_say(out, " on CPUs %s", gf_set_format(&decision->cpus, cpus, sizeof(cpus)));
    if (threads->self_set)
        gf_say(out, ", %u with %s own mask%s", threads->self_set,
               threads->self_set == 1 ? "its" : "their", plural_s(threads->self_set));
    if (threads->elsewhere)
        gf_say(out, ", %u on other CPUs", threads->elsewhere);
}

static void say_memory(struct gf_textbuf *out, const struct gf_decision *decision)
{
    char nodes[128];

    gf_set_format(&decision->verdict.policy_nodes, nodes, sizeof(nodes));
    if (decision->policy == MPOL_PREFERRED || decision->policy == GF_MPOL_PREFERRED_MANY)
        gf_say(out, "; memory prefers node %s", nodes);
    else if (decision->policy == MPOL_BIND)
        gf_say(out, "; memory on node %s only", nodes);
    else
        gf_say(out, "; memory: %s", decision->verdict.policy_reason);
}

void gf_summary_verdict(const struct gf_decision *decision, const struct gf_options *options,
                        char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    const struct gf_verdict *verdict = &decision->verdict;
    char cpus[256];

    say_gpus(&out, decision);
    gf_say(&out, ": ");
    if (decision->bound) {
        say_threads(&out, decision);
        say_memory(&out, decision);
    } else if (decision->observe && verdict->bound != gf_bound_none) {
        gf_say(&out, "observed only; would use CPUs %s",
               gf_set_format(&verdict->cpus, cpus, sizeof(cpus)));
    } else {
        gf_say(&out, "%s: %s",
               verdict->bound == gf_bound_submitters ? "nothing bound yet" : "not bound",
               verdict->reason);
        if (decision->policy != MPOL_DEFAULT)
            say_memory(&out, decision);
    }
    if (options->verbose > 1 && decision->bound)
        gf_say(&out, "; %s", verdict->reason);
    if (*verdict->remedy)
        gf_say(&out, " (%s)", verdict->remedy);
}

static void say_pages(struct gf_textbuf *out, const struct gf_report *report, const char *what,
                      const struct gf_pages *pages)
{
    char nodes[128];
    if (!pages->total)
        return;
    gf_say(out, "; %s ", what);
    gf_say_bytes(out, pages->total);
    if (gf_set_empty(&report->decision.verdict.nodes))
        return;
    const unsigned share = gf_pages_share(pages, &report->decision.verdict.nodes);
    gf_say(out, ", %u.%u %% on node %s", share / 10, share % 10,
           gf_set_format(&report->decision.verdict.nodes, nodes, sizeof(nodes)));
}

static void say_last_move(struct gf_textbuf *out, const struct gf_report *report)
{
    for (size_t i = report->event_count; i-- > 0;) {
        if (report->events[i].kind == gf_report_left)
            continue; /* this event was already printed when it happened */
        gf_say(out, "; %s", report->events[i].text);
        break;
    }
}

void gf_summary_exit(const struct gf_report *report, char *buf, size_t size)
{
    struct gf_textbuf out = {buf, size, 0};
    char cpus[256];

    gf_say(&out, "after %llu.%llu s: ", (unsigned long long)(report->ran_ms / 1000),
           (unsigned long long)(report->ran_ms % 1000 / 100));
    if (!report->sample_count) {
        gf_say(&out, "the placement was not read back");
        return;
    }
    const struct gf_threads *peak = &report->peak;
    if (report->decision.bound)
        gf_say(&out, "%u of %u thread%s on CPUs %s", peak->on_target, peak->program,
               plural_s(peak->program), gf_set_format(&report->decision.cpus, cpus, sizeof(cpus)));
    else
        gf_say(&out, "%u thread%s, not bound", peak->program, plural_s(peak->program));
    if (peak->self_set)
        gf_say(&out, ", %u with %s own mask%s", peak->self_set,
               peak->self_set == 1 ? "its" : "their", plural_s(peak->self_set));
    if (report->peak_descendants)
        gf_say(&out, ", %u worker thread%s", report->peak_descendants,
               plural_s(report->peak_descendants));
    const struct gf_locality *last = &report->samples[report->sample_count - 1].locality;
    say_pages(&out, report, "heap", &last->heap);
    say_pages(&out, report, "other memory", &last->other);
    say_last_move(&out, report);
}
