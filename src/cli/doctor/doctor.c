/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/doctor.h"

#include "cli/doctor/checks.h"

#include <string.h>

static const struct {
    const char *name;
    gf_check *run;
    const char *why, *page;
    const char *where[gf_where_count];
} checks[] = {
#define GF_CHECK(token, name, reads, why, page, ...)                                               \
    {name, gf_check_##token, why, page, {__VA_ARGS__}},
#include "tools/doctor/checks.def"
};

void gf_doctor_run(const struct gf_check_input *input, struct gf_findings *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(checks); i++) {
        const size_t before = ret->count;
        checks[i].run(input, ret);
        gf_findings_group(ret, before);
        for (size_t j = before; j < ret->count; j++) {
            struct gf_finding *finding = &ret->list[j];
            finding->check = checks[i].name;
            if (finding->status != gf_status_problem)
                continue;
            if (!finding->why)
                finding->why = checks[i].why;
            finding->page = checks[i].page;
            memcpy(finding->where, checks[i].where, sizeof(finding->where));
        }
    }
}
