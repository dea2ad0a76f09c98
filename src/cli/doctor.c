/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    gf_check *check;
} checks[] = {
    {"gpus", gf_check_gpus},           {"links", gf_check_links},         {"nodes", gf_check_nodes},
    {"cpus", gf_check_cpus},           {"affinity", gf_check_affinity},   {"policy", gf_check_policy},
    {"quota", gf_check_quota},         {"memory", gf_check_memory},       {"shm", gf_check_shm},
    {"memlock", gf_check_memlock},     {"address-space", gf_check_space}, {"threads", gf_check_threads},
    {"kernel", gf_check_kernel},       {"shared-huge-pages", gf_check_shared_huge},
    {"huge-pages", gf_check_huge},     {"zone-reclaim", gf_check_reclaim}, {"numa-balancing", gf_check_balancing},
    {"governor", gf_check_governor},   {"swap", gf_check_swap},
};

/* Files may hold anything: nothing that is no UTF-8 to JSON or a command to a terminal. */
static void format_plain(char *ret, size_t size, const char *format, va_list args)
{
    vsnprintf(ret, size, format, args);
    for (; *ret; ret++)
        if (*ret < ' ' || *ret > '~')
            *ret = '?';
}

struct gf_advice *gf_advise(struct gf_advices *advices, enum gf_health health, const char *format, ...)
{
    const size_t most = GF_ARRAY_LEN(advices->list);
    struct gf_advice *advice = &advices->list[gf_min(advices->count, most - 1)];
    va_list args;

    advices->count = gf_min(advices->count + 1, most);
    *advice = (struct gf_advice){.health = health};
    va_start(args, format);
    format_plain(advice->what, sizeof(advice->what), format, args);
    va_end(args);
    return advice;
}

void gf_advise_read(struct gf_advice *advice, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_plain(advice->read, sizeof(advice->read), format, args);
    va_end(args);
}

void gf_advise_mend(struct gf_advice *advice, const char *why, const char *format, ...)
{
    va_list args;
    advice->why = why;
    va_start(args, format);
    vsnprintf(advice->mend, sizeof(advice->mend), format, args);
    va_end(args);
}

void gf_doctor_see(const struct gf_patient *patient, struct gf_advices *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(checks); i++) {
        const size_t before = ret->count;
        checks[i].check(patient, ret);
        for (size_t j = before; j < ret->count; j++)
            ret->list[j].check = checks[i].name;
    }
}
