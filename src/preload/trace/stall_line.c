/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/stall_line.h"

#include "base/fmt.h"
#include "os/memory.h"
#include "preload/trace/log_header.h"
#include "preload/trace/journal.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bytes that are reserved for the end of the line: the finding and the number of dropped lines. */
#define END_SIZE 512

static void put_parts(struct gf_json *json, const struct gf_slowpath *slow)
{
    static const char *const names[] = {"lock", "purge", "map", "unmap", "setup", "huge"};
    uint64_t rest = slow->end_ns - slow->start_ns;

    gf_json_begin(json, "parts_us", '{');
    for (unsigned i = 0; i < GF_SLOWPATH_PARTS; i++) {
        if (slow->part_count[i])
            gf_json_size(json, names[i], slow->part_ns[i] / 1000);
        rest -= gf_min(slow->part_ns[i], rest);
    }
    gf_json_size(json, "rest", rest / 1000);
    gf_json_end(json, '}');
}

static void put_thread(struct gf_json *json)
{
    char name[17] = "";
    unsigned cpu = 0, node = 0;

    prctl(PR_GET_NAME, name);
    gf_json_text(json, "thread", name);
    if (syscall(SYS_getcpu, &cpu, &node, NULL) == 0) {
        gf_json_int(json, "cpu", cpu);
        gf_json_int(json, "node", node);
    }
}

static void put_place(struct gf_json *json, const struct gf_evidence *evidence)
{
    const struct gf_slowpath *slow = evidence->slow;

    gf_json_known_int(json, "block_node", gf_page_node(slow->block, slow->size));
    if (evidence->gpu.device < 0) {
        gf_json_null(json, "gpu");
        return;
    }
    gf_json_begin(json, "gpu", '{');
    gf_json_int(json, "device", evidence->gpu.device);
    gf_json_text(json, "pci", evidence->gpu.pci);
    gf_json_end(json, '}');
}

static void put_usage(struct gf_json *json, const struct gf_slowpath_usage *used)
{
    if (!used->known)
        return;
    gf_json_size(json, "cpu_us", used->cpu_us);
    gf_json_size(json, "minor_faults", used->minor);
    gf_json_size(json, "major_faults", used->major);
    gf_json_size(json, "waits", used->voluntary);
    gf_json_size(json, "preempted", used->forced);
}

static void put_python(struct gf_line *line)
{
    struct gf_json *json = &line->json;
    const struct gf_json before = *json;
    const struct gf_pystack_frame *frame = line->capture.python;
    const size_t frames = gf_python_frames(line->capture.python, GF_PYTHON_FRAMES);

    if (!frames)
        return;
    gf_json_begin(json, "python", '[');
    for (size_t i = 0; i < frames; i++, frame++) {
        gf_json_begin(json, NULL, '{');
        gf_json_text(json, "file", frame->file);
        gf_json_int(json, "line", frame->line);
        gf_json_text(json, "function", frame->function);
        gf_json_end(json, '}');
    }
    gf_json_end(json, ']');
    if (json->at + END_SIZE > json->size)
        *json = before;
}

static void put_module(struct gf_json *json, const struct gf_module *module)
{
    char hex[2 * sizeof(module->id) + 1] = "";

    for (size_t i = 0; i < module->id_length; i++)
        gf_fmt(hex + 2 * i, 3, "%02x", module->id[i]);
    gf_json_begin(json, NULL, '{');
    gf_json_text(json, "path", *module->path ? module->path : gf_log_header_program());
    gf_json_text(json, "build_id", hex);
    gf_json_end(json, '}');
}

static void put_stack(struct gf_line *line)
{
    struct gf_json *json = &line->json;
    const struct gf_json before = *json;
    struct gf_stack *stack = &line->capture.stack;
    char text[32];

    gf_unwind(stack, line->capture.scratch);
    if (!stack->frames)
        return;
    gf_json_begin(json, "stack", '[');
    for (size_t i = 0; i < stack->frames; i++) {
        gf_fmt(text, sizeof(text), "%u+%llx", stack->frame[i].module,
               (unsigned long long)stack->frame[i].offset);
        gf_json_text(json, NULL, text);
    }
    gf_json_end(json, ']');
    gf_json_begin(json, "modules", '[');
    for (size_t i = 0; i < stack->modules; i++)
        put_module(json, &stack->module[i]);
    gf_json_end(json, ']');
    if (json->at + END_SIZE > json->size)
        *json = before;
}

bool gf_stall_log(const struct gf_stall_line *stall)
{
    const struct gf_slowpath *slow = stall->evidence->slow;
    struct gf_line *line = gf_journal_begin("stall");

    if (!line)
        return false;
    struct gf_json *json = &line->json;
    line->start_ns = slow->start_ns;
    line->end_ns = slow->end_ns;
    line->found = true;
    line->finding = *stall->finding;
    gf_json_text(json, "call", stall->call);
    if (slow->size)
        gf_json_size(json, "size", slow->size);
    gf_json_size(json, "us", (slow->end_ns - slow->start_ns) / 1000);
    gf_json_micro(json, "start", slow->start_ns / 1000);
    put_parts(json, slow);
    put_thread(json);
    put_place(json, stall->evidence);
    put_usage(json, &stall->evidence->used);
    if (stall->step)
        gf_json_size(json, "step", stall->step);
    if (!slow->locked) {
        put_python(line);
        put_stack(line);
    }
    gf_journal_end(line);
    return true;
}
