/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel, boot, host settings. */
#include "os/cgroup.h"
#include "os/procfs.h"
#include "tools/doctor/finding.h"
#include "tools/topo/recording.h"

#include <stdio.h>
#include <stdlib.h>

/* Checks settings of the host's kernel, which a container shares and cannot change. */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SWAPPINESS_MOST 10

struct line {
    char text[160];
};

/*
 * Reads the first line of a file. Returns false if the file is missing or its first line is empty.
 */
static bool read_line(const struct gf_check_input *input, struct line *ret, enum gf_host_file file)
{
    if (gf_procfs_read(ret->text, sizeof(ret->text), input->root, "%s", gf_host_files[file]) <= 0)
        return false;
    ret->text[strcspn(ret->text, "\n")] = '\0';
    return *ret->text != '\0';
}

/* Reads the first line of a file as a number. Returns false if it is not a number of at least 0. */
static bool read_number(const struct gf_check_input *input, struct line *ret,
                        enum gf_host_file file, long *ret_value)
{
    char *end;
    if (!read_line(input, ret, file))
        return false;
    *ret_value = strtol(ret->text, &end, 10);
    return end != ret->text && !*end && *ret_value >= 0;
}

static void report_unreadable(struct gf_findings *ret, const char *subject, enum gf_host_file file)
{
    gf_finding_unreadable(ret, subject, gf_host_files[file]);
}

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
    struct line line;

    if (!read_line(input, &line, gf_host_release) || line.text[0] < '0' || line.text[0] > '9') {
        report_unreadable(ret, "kernel version", gf_host_release);
        return;
    }
    const bool is_old = !release_at_least(line.text, 5, 14);
    const bool is_recorded = gf_check_is_recorded(input);
    const int error = is_recorded ? is_old ? EINVAL : 0 : try_populate();
    if (!error) {
        gf_ok(ret, "Linux %s supports staged copies", line.text);
        return;
    }
    struct gf_finding *finding =
        gf_problem(ret, "Linux %s %s", line.text,
                   is_old ? "is too old for staged copies" : "does not support staged copies");
    gf_finding_evidence(
        finding, "/%s: %s%s%s", gf_host_files[gf_host_release], line.text,
        is_recorded ? "" : "; madvise(MADV_POPULATE_READ): ", is_recorded ? "" : strerror(error));
    gf_finding_fix(finding, "use a host with Linux 5.14 or later (RHEL 9, Ubuntu 22.04, Debian 12) "
                            "and no sandbox that refuses the call");
}

/*
 * Whether prctl(PR_SET_THP_DISABLE) is in effect for the process. It overrides all settings of huge
 * pages, and children inherit it, also through execve.
 */
static bool is_thp_disabled(const struct gf_check_input *input)
{
    char text[4096];

    gf_procfs_read(text, sizeof(text), input->root, "proc/self/status");
    const char *enabled = gf_procfs_field(text, "THP_enabled");
    return enabled && *enabled == '0';
}

void gf_check_shared_huge_pages(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct gf_thp thp;

    if (is_thp_disabled(input))
        return; /* gf_check_huge_pages reports it */
    gf_thp_read_shared(input->root, &thp);
    if (!thp.file || !strchr(thp.line, '[')) {
        gf_finding_unreadable(ret, "huge pages of shared memory", gf_thp_shared_files[1]);
        return;
    }
    if (thp.on) {
        gf_ok(ret, "large pinned buffers get huge pages");
        return;
    }
    if (gf_check_is_inference(input)) {
        gf_ok(ret, "no huge pages for shared memory: no compaction delays");
        return;
    }
    struct gf_finding *finding = gf_problem(ret, "large pinned buffers get no huge pages");
    gf_finding_evidence(finding, "/%s: %s", thp.file, thp.line);
    gf_finding_command(finding, "echo advise > /%s", thp.file);
    gf_finding_fix(finding,
                   "echo advise > /%s    (root, on the host; only memory that asks for huge pages "
                   "gets them)",
                   thp.file);
}

static struct gf_finding *report_huge(struct gf_findings *ret, enum gf_host_file file,
                                      const struct line *line, const char *summary)
{
    struct gf_finding *finding = gf_problem(ret, "%s", summary);
    gf_finding_evidence(finding, "/%s: %s", gf_host_files[file], line->text);
    gf_finding_command(finding, "echo madvise > /%s", gf_host_files[file]);
    return finding;
}

void gf_check_huge_pages(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct line enabled, defrag;

    if (is_thp_disabled(input)) {
        struct gf_finding *finding =
            gf_problem(ret, "this process and its children get no huge pages");
        gf_finding_evidence(finding, "/proc/self/status: THP_enabled: 0");
        gf_finding_fix(finding, "find the launcher or service that calls prctl(PR_SET_THP_DISABLE) "
                                "before it starts programs");
    } else if (!read_line(input, &enabled, gf_host_thp_enabled) || !strchr(enabled.text, '[')) {
        report_unreadable(ret, "huge pages", gf_host_thp_enabled);
    } else if (gf_thp_chosen(enabled.text, "never") && gf_check_is_inference(input)) {
        gf_ok(ret, "no huge pages: no compaction delays a request");
    } else if (gf_thp_chosen(enabled.text, "never")) {
        report_huge(ret, gf_host_thp_enabled, &enabled, "ordinary memory gets no huge pages");
    } else if (read_line(input, &defrag, gf_host_thp_defrag) &&
               gf_thp_chosen(defrag.text, "always")) {
        report_huge(ret, gf_host_thp_defrag, &defrag,
                    "a page fault waits while the kernel compacts memory for a huge page")
            ->why = "any page fault may take milliseconds, and stalls a step or a request";
    } else {
        gf_ok(ret, "huge pages: %s", enabled.text);
    }
}

/* On a machine with several nodes, reports a problem if one of these bits of a sysctl is set. */
static void check_bits(const struct gf_check_input *input, struct gf_findings *ret,
                       enum gf_host_file file, long bits, const char *sysctl, const char *summary)
{
    struct line line;
    long value;

    if (input->topo->machine->node_count < 2)
        return;
    if (!read_number(input, &line, file, &value)) {
        report_unreadable(ret, sysctl, file);
    } else if (!(value & bits)) {
        gf_ok(ret, "%s is %ld", sysctl, value);
    } else {
        struct gf_finding *finding = gf_problem(ret, "%s", summary);
        gf_finding_evidence(finding, "/%s: %s", gf_host_files[file], line.text);
        gf_finding_command(finding, "sysctl -w %s=%ld", sysctl, value & ~bits);
    }
}

void gf_check_zone_reclaim(const struct gf_check_input *input, struct gf_findings *ret)
{
    check_bits(input, ret, gf_host_zone_reclaim, ~0L, "vm.zone_reclaim_mode",
               "the kernel reclaims pages of a full node before it uses another node");
}

void gf_check_numa_balancing(const struct gf_check_input *input, struct gf_findings *ret)
{
    /*
     * Checks only the first bit, because the second bit moves pages only between fast and slow
     * memory.
     */
    check_bits(input, ret, gf_host_numa_balancing, 1, "kernel.numa_balancing",
               "the kernel moves pages between nodes by itself");
}

/*
 * True if /proc/swaps lists at least one device, and all devices are zram, which is compressed
 * memory instead of a disk.
 */
static bool is_swap_in_memory(const struct gf_check_input *input)
{
    static char text[4096];

    if (gf_procfs_read(text, sizeof(text), input->root, "%s", gf_host_files[gf_host_swaps]) <= 0)
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
    static char text[8192];
    struct line line;
    long swappiness;

    gf_procfs_read(text, sizeof(text), input->root, "%s", gf_host_files[gf_host_meminfo]);
    const char *total = gf_procfs_field(text, "SwapTotal");
    if (!total || *total < '0' || *total > '9') {
        report_unreadable(ret, "swapping", gf_host_meminfo);
    } else if (strtoull(total, NULL, 10) == 0 || gf_cgroup_has_no_swap(input->root)) {
        gf_ok(ret, "there is no swap");
    } else if (is_swap_in_memory(input)) {
        gf_ok(ret, "swap is compressed memory (zram)");
    } else if (!read_number(input, &line, gf_host_swappiness, &swappiness)) {
        report_unreadable(ret, "swapping", gf_host_swappiness);
    } else if (swappiness <= SWAPPINESS_MOST) {
        gf_ok(ret, "swapping is the last resort (vm.swappiness %s)", line.text);
    } else {
        struct gf_finding *finding = gf_problem(ret, "the kernel swaps before memory is short");
        gf_finding_evidence(finding, "/%s: %s; /%s: SwapTotal %lu kB",
                            gf_host_files[gf_host_swappiness], line.text,
                            gf_host_files[gf_host_meminfo], strtoul(total, NULL, 10));
        gf_finding_command(finding, "sysctl -w vm.swappiness=1");
    }
}

/* Checks the kernel's version and options, and memory that is reserved at boot. */

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
        gf_ok(ret, "Linux %s pins memory without known errors", release);
        return;
    }
    struct gf_finding *finding =
        gf_problem(ret, "Linux %s has known errors in pinning memory", release);
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
        struct gf_finding *finding =
            gf_problem(ret, "boot option %s: %s", slow[i].option, slow[i].effect);
        gf_finding_evidence(finding, "/proc/cmdline");
        gf_finding_fix(finding, "remove %s from the boot loader's configuration, and reboot",
                       slow[i].option);
        any = true;
    }
    if (!any)
        gf_ok(ret, "no boot option slows the host down");
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
    if (input->options->pin_pages == gf_pin_pages_huge || unused * size <= memory / 10) {
        gf_ok(ret, "%lu of %lu reserved huge pages are unused", unused, total);
        return;
    }
    struct gf_finding *finding =
        gf_problem(ret, "%lu GiB are reserved as huge pages and unused", (unused * size) >> 20);
    gf_finding_evidence(finding, "/%s: HugePages_Total %lu, HugePages_Free %lu",
                        gf_host_files[gf_host_meminfo], total, unused);
    gf_finding_command(finding, "sysctl -w vm.nr_hugepages=%lu", total - unused);
}

void gf_check_overcommit(const struct gf_check_input *input, struct gf_findings *ret)
{
    long mode, maps;

    if (gf_host_number(input, &mode, "proc/sys/vm/overcommit_memory") && mode == 2) {
        struct gf_finding *finding = gf_problem(ret, "the kernel limits reserved address space");
        gf_finding_evidence(finding, "/proc/sys/vm/overcommit_memory: 2");
        gf_finding_command(finding, "sysctl -w vm.overcommit_memory=0");
    }
    if (gf_host_number(input, &maps, "proc/sys/vm/max_map_count") && maps < 65530) {
        struct gf_finding *finding =
            gf_problem(ret, "a process may have only %ld memory mappings", maps);
        gf_finding_evidence(finding, "/proc/sys/vm/max_map_count: %ld", maps);
        gf_finding_command(finding, "sysctl -w vm.max_map_count=262144");
    }
}
