/* SPDX-License-Identifier: Apache-2.0 */
/* The SIM_* environment variables and CUDA_VISIBLE_DEVICES, which cuInit reads once. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_config sim_config;

/*
 * Reads the n-th field of a comma-separated list, or the last field if there are fewer. Returns
 * false if the list is absent.
 */
static bool field(const char *list, int n, char *ret, size_t size)
{
    if (!list || !*list)
        return false;
    for (; n > 0 && strchr(list, ','); n--)
        list = strchr(list, ',') + 1;
    size_t length = strcspn(list, ",");
    snprintf(ret, size, "%.*s", (int)length, list);
    return n == 0;
}

static void uuid_from(const char *text, CUuuid *ret)
{
    memset(ret, 0, sizeof *ret);
    if (strncasecmp(text, "GPU-", 4) == 0)
        text += 4;
    for (int digits = 0; *text && digits < 32; text++) {
        if (*text == '-')
            continue;
        char digit[2] = {*text, 0};
        unsigned value = (unsigned)strtoul(digit, NULL, 16);
        ret->bytes[digits / 2] |= (char)(digits % 2 ? value : value << 4);
        digits++;
    }
}

static void read_devices(void)
{
    const char *pci = getenv("SIM_DEVICES");
    char text[64];
    if (!pci || !*pci)
        pci = "0000:00:06.0";
    while (sim_config.devices < SIM_DEVICES_MAX && field(pci, sim_config.devices, text, 16)) {
        int i = sim_config.devices++;
        memcpy(sim_config.device[i].pci, text, 16);
        if (!field(getenv("SIM_NAMES"), i, sim_config.device[i].name, 64) &&
            !sim_config.device[i].name[0])
            strcpy(sim_config.device[i].name, "NVIDIA H200");
        if (!field(getenv("SIM_UUIDS"), i, text, sizeof text))
            snprintf(text, sizeof text, "GPU-%08x-0000-0000-0000-000000000001",
                     0x5150u + (unsigned)i);
        uuid_from(text, &sim_config.device[i].uuid);
    }
}

/* Parses an ordinal, or the beginning of a UUID that belongs to only one device. */
static int device_named(const char *text)
{
    char *end;
    long ordinal = strtol(text, &end, 10);
    if (end != text && !*end)
        return ordinal >= 0 && ordinal < sim_config.devices ? (int)ordinal : -1;
    if (strncmp(text, "GPU-", 4) != 0)
        return -1;
    int found = -1;
    for (int i = 0; i < sim_config.devices; i++) {
        char uuid[64] = "GPU-";
        for (int byte = 0, at = 4; byte < 16; byte++) {
            bool dash = byte == 4 || byte == 6 || byte == 8 || byte == 10;
            at += sprintf(uuid + at, dash ? "-%02x" : "%02x",
                          (unsigned char)sim_config.device[i].uuid.bytes[byte]);
        }
        if (strncasecmp(uuid, text, strlen(text)) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

/* Fills sim_devices as the driver does: the list ends at the first entry that names no device. */
void sim_devices_make(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[64];
    sim_device_count = 0;
    if (!visible) {
        for (int i = 0; i < sim_config.devices; i++)
            sim_devices[sim_device_count++].index = i;
        return;
    }
    for (int n = 0; n < SIM_DEVICES_MAX && field(visible, n, text, sizeof text); n++) {
        int index = device_named(text);
        if (index < 0)
            return;
        for (int i = 0; i < sim_device_count; i++)
            if (sim_devices[i].index == index) {
                sim_device_count = 0; /* like the driver, shows no device if one is named twice */
                return;
            }
        sim_devices[sim_device_count++].index = index;
    }
}

static unsigned long number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 0) : otherwise;
}

static enum sim_batch batch_of(const char *text)
{
    static const char *const names[] = {"measured", "early", "late", "forgets"};
    for (int i = 0; text && i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum sim_batch)i;
    return sim_batch_measured;
}

void sim_config_read(void)
{
    const char *dma = getenv("SIM_DMA");
    const char *node = getenv("SIM_HOST_NUMA_ID");
    memset(&sim_config, 0, sizeof sim_config);
    read_devices();
    sim_config.host_numa_id = node && *node ? (int)strtol(node, NULL, 0) : 0;
    sim_config.memory = number("SIM_MEMORY_MB", 143155) << 20;
    sim_config.late = dma && strcmp(dma, "late") == 0;
    sim_config.turns = number("SIM_TURNS", 0);
    sim_config.exclusive = number("SIM_EXCLUSIVE", 0);
    sim_config.error = (int)number("SIM_ERRNO", 0);
    sim_config.batch = batch_of(getenv("SIM_BATCH"));
    sim_config.late_ms = (unsigned)number("SIM_LATE_MS", 50);
    sim_config.pageable_rate = number("SIM_PAGEABLE_MBPS", 0) * UINT64_C(1000000);
    sim_config.link_rate = number("SIM_LINK_MBPS", 0) * UINT64_C(1000000);
}
