/* SPDX-License-Identifier: Apache-2.0 */
#include "host/pressure.h"

#include "host/cgroup.h"
#include "host/sysfile.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN GF_PRESSURE_UNKNOWN
#define MOUNT_V1 GF_CGROUP_MOUNT "/memory"

static bool find_group(const char *root, const char *controller, char *ret, size_t size)
{
    char text[8192];
    return gf_cgroup_find(root, controller, text, sizeof(text), ret, size);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" */
static uint64_t some_total(const char *text)
{
    const char *total = strncmp(text, "some ", 5) == 0 ? strstr(text, "total=") : NULL;
    return total ? strtoull(total + 6, NULL, 10) : UNKNOWN;
}

static void add(uint64_t *to, uint64_t value)
{
    *to = (*to == UNKNOWN ? 0 : *to) + value;
}

/* Group by group up to the top: a parent's limit stops this process as well. */
static void read_events(const char *root, const char *mount, struct gf_pressure *ret)
{
    char group[1024], text[1024];

    if (!find_group(root, "", group, sizeof(group)))
        return;
    do {
        if (ret->stalled_us == UNKNOWN &&
            gf_sysfile_read(text, sizeof(text), root, "%s%s/memory.pressure", mount, group) > 0) {
            ret->stalled_us = some_total(text);
            ret->stalled_file = "memory.pressure";
        }
        if (gf_sysfile_read(text, sizeof(text), root, "%s%s/memory.events", mount, group) <= 0)
            continue;
        add(&ret->limited, gf_sysfile_value(text, "high") + gf_sysfile_value(text, "max"));
        add(&ret->killed, gf_sysfile_value(text, "oom") + gf_sysfile_value(text, "oom_kill"));
        ret->limited_file = "memory.events";
    } while (gf_cgroup_to_parent(group));
}

static void read_events_v1(const char *root, struct gf_pressure *ret)
{
    char group[1024], text[256];

    if (!find_group(root, "memory", group, sizeof(group)))
        return;
    do {
        if (gf_sysfile_read(text, sizeof(text), root, MOUNT_V1 "%s/memory.failcnt", group) <= 0)
            continue;
        add(&ret->limited, strtoull(text, NULL, 10));
        ret->limited_file = "memory.failcnt";
        if (gf_sysfile_read(text, sizeof(text), root, MOUNT_V1 "%s/memory.oom_control", group) > 0)
            add(&ret->killed, gf_sysfile_value(text, "oom_kill"));
    } while (gf_cgroup_to_parent(group));
}

void gf_pressure_read(const char *root, struct gf_pressure *ret)
{
    char text[256];

    *ret = (struct gf_pressure){.stalled_us = UNKNOWN, .limited = UNKNOWN, .killed = UNKNOWN};
    read_events(root, GF_CGROUP_MOUNT, ret);
    read_events(root, GF_CGROUP_MOUNT_UNIFIED, ret);
    read_events_v1(root, ret);
    if (ret->stalled_us == UNKNOWN &&
        gf_sysfile_read(text, sizeof(text), root, "proc/pressure/memory") > 0) {
        ret->stalled_us = some_total(text);
        ret->stalled_file = "/proc/pressure/memory";
    }
    if (ret->stalled_us == UNKNOWN)
        ret->stalled_file = NULL;
}
