/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel, boot, host settings. */
#include "os/cgroup.h"
#include "os/procfs.h"
#include "tools/doctor/finding.h"

#include <stdlib.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SWAPPINESS_MOST 10

#define RELEASE "proc/sys/kernel/osrelease"
#define HUGE_PAGES "sys/kernel/mm/transparent_hugepage/"

static bool release_at_least(const char *release, long major, long minor)
{
    char *end;
    const long found = strtol(release, &end, 10);
    return found > major || (found == major && *end == '.' && strtol(end + 1, NULL, 10) >= minor);
}

/*
 * Tries madvise(MADV_POPULATE_READ). Returns 0 or an errno. The kernel's version does not show
 * whether the call works: vendors add the call to older kernels, and sandboxes refuse it.
 */
static int try_populate(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return errno;
    const int error = madvise(page, size, MADV_POPULATE_READ) ? errno : 0;
    munmap(page, size);
    return error;
}

void gf_check_kernel(const struct gf_check_input *input, struct gf_findings *ret)
{
    char release[160];

    if (!gf_host_line(input, release, sizeof(release), RELEASE) || *release < '0' ||
        *release > '9') {
        gf_finding_unreadable(ret, "kernel version", RELEASE);
        return;
    }
    const bool is_old = !release_at_least(release, 5, 14);
    const bool is_recorded = gf_check_is_recorded(input);
    const int error = is_recorded ? is_old ? EINVAL : 0 : try_populate();
    if (gf_ok_if(ret, !error, "Linux %s supports staged copies", release))
        return;
    gf_problem(ret, "Linux %s %s", release,
               is_old ? "is too old for staged copies" : "does not support staged copies");
    gf_evidence(
        ret, "/" RELEASE ": %s%s%s", release,
        is_recorded ? "" : "; madvise(MADV_POPULATE_READ): ", is_recorded ? "" : strerror(error));
    gf_fix(ret, "use a host with Linux 5.14 or later (RHEL 9, Ubuntu 22.04, Debian 12) "
                "and no sandbox that refuses the call");
}

bool gf_check_thp_is_off(const struct gf_check_input *input)
{
    char text[4096];

    gf_procfs_read(text, sizeof(text), input->root, "proc/self/status");
    const char *enabled = gf_procfs_field(text, "THP_enabled");
    return enabled && *enabled == '0';
}

void gf_check_shared_huge_pages(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct gf_thp thp;

    if (gf_check_thp_is_off(input))
        return; /* gf_check_huge_pages reports it */
    gf_thp_read_shared(input->root, &thp);
    if (!thp.file || !strchr(thp.line, '[')) {
        gf_finding_unreadable(ret, "huge pages of shared memory", gf_thp_shared_files[1]);
        return;
    }
    if (gf_ok_if(ret, thp.on, "large pinned buffers get huge pages"))
        return;
    if (gf_ok_if(ret, gf_check_is_inference(input),
                 "no huge pages for shared memory: no compaction delays"))
        return;
    gf_problem(ret, "large pinned buffers get no huge pages");
    gf_evidence(ret, "/%s: %s", thp.file, thp.line);
    gf_command(ret, "echo advise > /%s", thp.file);
    gf_fix(ret,
           "echo advise > /%s    (root, on the host; only memory that asks for huge pages "
           "gets them)",
           thp.file);
}

static void report_huge(struct gf_findings *ret, const char *file, const char *line,
                        const char *summary)
{
    gf_problem(ret, "%s", summary);
    gf_evidence(ret, "/%s: %s", file, line);
    gf_command(ret, "echo madvise > /%s", file);
}

void gf_check_huge_pages(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char setting[] = HUGE_PAGES "enabled", of_faults[] = HUGE_PAGES "defrag";
    char enabled[160], defrag[160];

    if (gf_check_thp_is_off(input)) {
        gf_problem(ret, "this process and its children get no huge pages");
        gf_evidence(ret, "/proc/self/status: THP_enabled: 0");
        gf_fix(ret, "find the launcher or service that calls prctl(PR_SET_THP_DISABLE) "
                    "before it starts programs");
    } else if (!gf_host_line(input, enabled, sizeof(enabled), setting) || !strchr(enabled, '[')) {
        gf_finding_unreadable(ret, "huge pages", setting);
    } else if (gf_thp_chosen(enabled, "never") && gf_check_is_inference(input)) {
        gf_ok(ret, "no huge pages: no compaction delays a request");
    } else if (gf_thp_chosen(enabled, "never")) {
        report_huge(ret, setting, enabled, "ordinary memory gets no huge pages");
    } else if (gf_host_line(input, defrag, sizeof(defrag), of_faults) &&
               gf_thp_chosen(defrag, "always")) {
        report_huge(ret, of_faults, defrag,
                    "a page fault waits while the kernel compacts memory for a huge page");
        ret->last->why = "any page fault may take milliseconds, and stalls a step or a request";
    } else {
        gf_ok(ret, "huge pages: %s", enabled);
    }
}

/* On a machine with several nodes, reports a problem if one of these bits of a sysctl is set. */
static void check_bits(const struct gf_check_input *input, struct gf_findings *ret,
                       const char *file, long bits, const char *sysctl, const char *summary)
{
    long value;

    if (input->topo->machine->node_count < 2)
        return;
    if (!gf_host_number(input, &value, "%s", file)) {
        gf_finding_unreadable(ret, sysctl, file);
    } else if (!(value & bits)) {
        gf_ok(ret, "%s is %ld", sysctl, value);
    } else {
        gf_problem(ret, "%s", summary);
        gf_evidence(ret, "/%s: %ld", file, value);
        gf_command(ret, "sysctl -w %s=%ld", sysctl, value & ~bits);
    }
}

void gf_check_zone_reclaim(const struct gf_check_input *input, struct gf_findings *ret)
{
    check_bits(input, ret, "proc/sys/vm/zone_reclaim_mode", ~0L, "vm.zone_reclaim_mode",
               "the kernel reclaims pages of a full node before it uses another node");
}

void gf_check_numa_balancing(const struct gf_check_input *input, struct gf_findings *ret)
{
    /*
     * Checks only the first bit, because the second bit moves pages only between fast and slow
     * memory.
     */
    check_bits(input, ret, "proc/sys/kernel/numa_balancing", 1, "kernel.numa_balancing",
               "the kernel moves pages between nodes by itself");
}

/*
 * True if /proc/swaps lists at least one device, and all devices are zram, which is compressed
 * memory instead of a disk.
 */
static bool is_swap_in_memory(const struct gf_check_input *input)
{
    static char text[4096];

    if (gf_procfs_read(text, sizeof(text), input->root, "proc/swaps") <= 0)
        return false;
    const char *line = strchr(text, '\n');
    bool any = false;
    for (; line; line = strchr(line + 1, '\n'), any = true)
        if (strncmp(line + 1, "/dev/zram", strlen("/dev/zram")) != 0 &&
            strncmp(line + 1, "/zram", strlen("/zram")) != 0)
            return false;
    return any;
}

void gf_check_swap(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char file[] = "proc/sys/vm/swappiness";
    uint64_t total;
    long swappiness;

    if (!gf_host_meminfo(input, (const char *const[]){"SwapTotal"}, &total, 1)) {
        gf_finding_unreadable(ret, "swapping", GF_MEMINFO);
    } else if (!total || gf_cgroup_has_no_swap(input->root)) {
        gf_ok(ret, "there is no swap");
    } else if (is_swap_in_memory(input)) {
        gf_ok(ret, "swap is compressed memory (zram)");
    } else if (!gf_host_number(input, &swappiness, file)) {
        gf_finding_unreadable(ret, "swapping", file);
    } else if (swappiness <= SWAPPINESS_MOST) {
        gf_ok(ret, "swapping is the last resort (vm.swappiness %ld)", swappiness);
    } else {
        gf_problem(ret, "the kernel swaps before memory is short");
        gf_evidence(ret, "/%s: %ld; /" GF_MEMINFO ": SwapTotal %lu kB", file, swappiness, total);
        gf_command(ret, "sysctl -w vm.swappiness=1");
    }
}

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

    if (!gf_host_line(input, release, sizeof(release), RELEASE))
        return;
    char *at = release;
    for (size_t i = 0; i < GF_ARRAY_LEN(part) && *at >= '0' && *at <= '9'; i++) {
        part[i] = strtoul(at, &at, 10);
        at += *at == '.';
    }
    if (!part[0])
        return;
    if (gf_ok_if(ret,
                 part[0] != 6 || part[1] < 11 || part[1] > 13 ||
                     (part[1] == 12 && part[2] >= CORRECTED_6_12),
                 "Linux %s pins memory without known errors", release))
        return;
    gf_problem(ret, "Linux %s has known errors in pinning memory", release);
    gf_evidence(ret, "/" RELEASE ": %s", release);
    gf_fix(ret,
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
        gf_problem(ret, "boot option %s: %s", slow[i].option, slow[i].effect);
        gf_evidence(ret, "/proc/cmdline");
        gf_fix(ret, "remove %s from the boot loader's configuration, and reboot", slow[i].option);
        any = true;
    }
    if (!any)
        gf_ok(ret, "no boot option slows the host down");
}

void gf_check_huge_page_pool(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char *const keys[] = {"HugePages_Total", "HugePages_Free", "Hugepagesize",
                                       "MemTotal"};
    uint64_t found[GF_ARRAY_LEN(keys)];

    if (!gf_host_meminfo(input, keys, found, GF_ARRAY_LEN(keys)) || !found[0])
        return;
    const uint64_t total = found[0], unused = found[1], size = found[2], memory = found[3];
    if (gf_ok_if(ret,
                 input->options->pin_pages == gf_pin_pages_huge || unused * size <= memory / 10,
                 "%lu of %lu reserved huge pages are unused", unused, total))
        return;
    gf_problem(ret, "%lu GiB are reserved as huge pages and unused", (unused * size) >> 20);
    gf_evidence(ret, "/" GF_MEMINFO ": HugePages_Total %lu, HugePages_Free %lu", total, unused);
    gf_command(ret, "sysctl -w vm.nr_hugepages=%lu", total - unused);
}

void gf_check_overcommit(const struct gf_check_input *input, struct gf_findings *ret)
{
    long mode, maps;

    if (gf_host_number(input, &mode, "proc/sys/vm/overcommit_memory") && mode == 2) {
        gf_problem(ret, "the kernel limits reserved address space");
        gf_evidence(ret, "/proc/sys/vm/overcommit_memory: 2");
        gf_command(ret, "sysctl -w vm.overcommit_memory=0");
    }
    if (gf_host_number(input, &maps, "proc/sys/vm/max_map_count") && maps < 65530) {
        gf_problem(ret, "a process may have only %ld memory mappings", maps);
        gf_evidence(ret, "/proc/sys/vm/max_map_count: %ld", maps);
        gf_command(ret, "sysctl -w vm.max_map_count=262144");
    }
}
