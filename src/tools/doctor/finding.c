/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/doctor/finding.h"

#include "base/input_file.h"
#include "os/procfs.h"
#include "tools/common/cli.h"

#include <stdlib.h>

void gf_finding_set(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%s", text);
    for (; *ret; ret++)
        if (*ret < ' ' || *ret > '~')
            *ret = '?';
}

void gf_finding_add(struct gf_findings *findings, enum gf_status status, const char *summary)
{
    /* Callers add to the last finding even if the list is full. */
    static struct gf_finding dropped;
    const bool fits = findings->count < GF_ARRAY_LEN(findings->list);
    struct gf_finding *finding = fits ? &findings->list[findings->count++] : &dropped;
    *finding = (struct gf_finding){.status = status};
    findings->last = finding;
    gf_finding_set(finding->summary, sizeof(finding->summary), summary);
    if (!fits)
        gf_cli_error("dropped a finding, because there are more than %zu: %s",
                     GF_ARRAY_LEN(findings->list), finding->summary);
}

void gf_finding_of_gpu(struct gf_findings *findings, const char *bdf)
{
    snprintf(findings->last->gpus[0], sizeof(findings->last->gpus[0]), "%s", bdf);
    findings->last->gpu_count = 1;
}

static bool same_but_gpu(const struct gf_finding *a, const struct gf_finding *b)
{
    return a->gpu_count && b->gpu_count && a->status == b->status && a->why == b->why &&
           strcmp(a->summary, b->summary) == 0 && strcmp(a->fix, b->fix) == 0;
}

/* Puts the list of GPUs before the summary, such as "GPUs 0000:1b:00.0, 0000:43:00.0: ". */
static void name_gpus(struct gf_finding *finding)
{
    const char *names = finding->gpu_count > 1 ? "GPUs" : "GPU";

    for (size_t i = 0; i < finding->gpu_count && i < GF_ARRAY_LEN(finding->gpus); i++)
        names = gf_text("%s%s%s", names, i ? ", " : " ", finding->gpus[i]);
    if (finding->gpu_count > GF_ARRAY_LEN(finding->gpus))
        names = gf_text("%s and %zu more", names, finding->gpu_count - GF_ARRAY_LEN(finding->gpus));
    gf_finding_set(finding->summary, sizeof(finding->summary),
                   gf_text("%s: %s", names, finding->summary));
}

void gf_findings_group(struct gf_findings *findings, size_t from)
{
    size_t kept = from;

    for (size_t i = from; i < findings->count; i++) {
        size_t j = from;
        while (j < kept && !same_but_gpu(&findings->list[j], &findings->list[i]))
            j++;
        struct gf_finding *first = &findings->list[j];
        if (j == kept) {
            if (kept++ != i)
                *first = findings->list[i];
        } else if (first->gpu_count++ < GF_ARRAY_LEN(first->gpus)) {
            memcpy(first->gpus[first->gpu_count - 1], findings->list[i].gpus[0],
                   sizeof(first->gpus[0]));
        }
    }
    findings->count = kept;
    for (size_t i = from; i < kept; i++)
        if (findings->list[i].gpu_count)
            name_gpus(&findings->list[i]);
}

bool gf_host_read_line(const struct gf_check_input *input, char *ret, size_t size, const char *path)
{
    if (gf_procfs_read(ret, size, input->root, "%s", path) <= 0)
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return *ret != '\0';
}

bool gf_host_read_number(const struct gf_check_input *input, long *ret, const char *path)
{
    char text[64], *end;

    if (!gf_host_read_line(input, text, sizeof(text), path))
        return false;
    *ret = strtol(text, &end, 10);
    return end != text && !*end && *ret >= 0;
}

bool gf_host_has(const struct gf_check_input *input, const char *name, const char *begin)
{
    bool found = false;

    GF_FOLDER_IN(folder, input->root, gf_text("/%s", name));
    for (const char *entry; !found && (entry = gf_folder_next(&folder));)
        found = strncmp(entry, begin, strlen(begin)) == 0;
    return found;
}

bool gf_host_meminfo(const struct gf_check_input *input, const char *const *keys, uint64_t *ret,
                     size_t count)
{
    char text[8192];

    gf_procfs_read(text, sizeof(text), input->root, GF_MEMINFO);
    for (size_t i = 0; i < count; i++) {
        const char *field = gf_procfs_field(text, keys[i]);
        if (!field || *field < '0' || *field > '9')
            return false;
        ret[i] = gf_procfs_number(field);
    }
    return true;
}

const struct gf_cpus *gf_host_cpus(const struct gf_check_input *input)
{
    return input->topo->has_mask ? &input->topo->facts.start : &input->topo->machine->online;
}
