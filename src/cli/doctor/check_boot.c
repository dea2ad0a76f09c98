/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the kernel's version and options, and memory that is reserved at boot. */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "cli/topo/host_files.h"
#include "os/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The first patch level of Linux 6.12 in which long-term pins (FOLL_LONGTERM) have no known errors.
 * Linux 6.11 leaks pages and fails allocations (NVIDIA/NV-Kernels, pull request 108). Up to Linux
 * 6.13, a call that pins pages may loop forever.
 */
#define CORRECTED_6_12 20

void gf_check_pinning(const struct gf_check_input *input, struct gf_findings *ret)
{
    char release[64];
    unsigned long part[3] = {0}; /* major, minor, patch */

    if (!gf_host_line(input, release, sizeof(release), "%s", gf_host_files[gf_host_release]))
        return;
    char *at = release;
    for (size_t i = 0; i < GF_ARRAY_LEN(part) && *at >= '0' && *at <= '9'; i++) {
        part[i] = strtoul(at, &at, 10);
        at += *at == '.';
    }
    if (!part[0])
        return;
    if (part[0] != 6 || part[1] < 11 || part[1] > 13 ||
        (part[1] == 12 && part[2] >= CORRECTED_6_12)) {
        gf_finding_add(ret, gf_status_ok, "Linux %s pins memory without known errors", release);
        return;
    }
    struct gf_finding *finding = gf_finding_add(
        ret, gf_status_problem, "Linux %s has known errors in pinning memory", release);
    gf_finding_evidence(finding, "/%s: %s", gf_host_files[gf_host_release], release);
    gf_finding_fix(finding,
                   "use Linux 6.14 or later, 6.12.%d or later, 6.8, or a vendor's kernel "
                   "in which pin_user_pages(FOLL_LONGTERM) is corrected",
                   CORRECTED_6_12);
}

/*
 * Whether the kernel's command line contains the option as a whole word, or with a value. The value
 * "-" turns slub_debug off.
 */
static bool has_option(const char *line, const char *option)
{
    const size_t length = strlen(option);

    for (const char *at = line; (at = strstr(at, option)); at += length)
        if ((at == line || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0' ||
                                              (at[length] == '=' && at[length + 1] != '-')))
            return true;
    return false;
}

void gf_check_boot_options(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const struct {
        const char *option, *effect;
    } slow[] = {
        {"init_on_alloc=1", "the kernel clears each page twice"},
        {"init_on_free=1", "the kernel clears each page when it is freed"},
        {"numa=off", "the kernel treats all memory as one NUMA node"},
        {"slub_debug", "the kernel checks each of its own allocations"},
        {"slab_debug", "the kernel checks each of its own allocations"}, /* from Linux 6.9 on */
        {"idle=poll", "idle CPUs use power, which lowers the turbo clock of busy CPUs"},
    };
    char line[2048];
    bool any = false;

    if (!gf_host_line(input, line, sizeof(line), "proc/cmdline"))
        return;
    for (size_t i = 0; i < GF_ARRAY_LEN(slow); i++) {
        if (!has_option(line, slow[i].option))
            continue;
        struct gf_finding *finding = gf_finding_add(ret, gf_status_problem, "boot option %s: %s",
                                                    slow[i].option, slow[i].effect);
        gf_finding_evidence(finding, "/proc/cmdline");
        gf_finding_fix(finding, "remove %s from the boot loader's configuration, and reboot",
                       slow[i].option);
        any = true;
    }
    if (!any)
        gf_finding_add(ret, gf_status_ok, "no boot option slows the host down");
}

void gf_check_huge_page_pool(const struct gf_check_input *input, struct gf_findings *ret)
{
    static char text[8192];

    if (gf_procfs_read(text, sizeof(text), input->root, "%s", gf_host_files[gf_host_meminfo]) <= 0)
        return;
    const char *total_text = gf_procfs_field(text, "HugePages_Total");
    const char *free_text = gf_procfs_field(text, "HugePages_Free");
    const char *size_text = gf_procfs_field(text, "Hugepagesize");
    const char *memory_text = gf_procfs_field(text, "MemTotal");
    if (!total_text || !free_text || !size_text || !memory_text)
        return;
    const uint64_t total = gf_procfs_number(total_text), unused = gf_procfs_number(free_text);
    const uint64_t size = gf_procfs_number(size_text), memory = gf_procfs_number(memory_text);
    if (!total)
        return;
    if (input->pins_huge || unused * size <= memory / 10) {
        gf_finding_add(ret, gf_status_ok, "%llu of %llu reserved huge pages are unused",
                       (unsigned long long)unused, (unsigned long long)total);
        return;
    }
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem, "%llu GiB are reserved as huge pages and unused",
                       (unsigned long long)(unused * size) >> 20);
    gf_finding_evidence(finding, "/%s: HugePages_Total %llu, HugePages_Free %llu",
                        gf_host_files[gf_host_meminfo], (unsigned long long)total,
                        (unsigned long long)unused);
    gf_finding_command(finding, "sysctl -w vm.nr_hugepages=%llu",
                       (unsigned long long)(total - unused));
}

void gf_check_overcommit(const struct gf_check_input *input, struct gf_findings *ret)
{
    long mode, maps;

    if (gf_host_number(input, &mode, "proc/sys/vm/overcommit_memory") && mode == 2) {
        struct gf_finding *finding =
            gf_finding_add(ret, gf_status_problem, "the kernel limits reserved address space");
        gf_finding_evidence(finding, "/proc/sys/vm/overcommit_memory: 2");
        gf_finding_command(finding, "sysctl -w vm.overcommit_memory=0");
    }
    if (gf_host_number(input, &maps, "proc/sys/vm/max_map_count") && maps < 65530) {
        struct gf_finding *finding = gf_finding_add(
            ret, gf_status_problem, "a process may have only %ld memory mappings", maps);
        gf_finding_evidence(finding, "/proc/sys/vm/max_map_count: %ld", maps);
        gf_finding_command(finding, "sysctl -w vm.max_map_count=262144");
    }
}
