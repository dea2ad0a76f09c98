/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the host's kernel. In a container they are the host's, and to be set there. */
#include "cli/doctor.h"

#include "host/cgroup.h"
#include "host/sysfile.h"
#include "host/thp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SWAPPINESS_MOST 10

/* What is read here, and by host/thp.h. */
enum file { f_release, f_enabled, f_defrag, f_reclaim, f_balancing, f_swappiness, f_swaps, f_meminfo };
static const char *const files[] = {
    [f_release] = "proc/sys/kernel/osrelease",
    [f_enabled] = "sys/kernel/mm/transparent_hugepage/enabled",
    [f_defrag] = "sys/kernel/mm/transparent_hugepage/defrag",
    [f_reclaim] = "proc/sys/vm/zone_reclaim_mode",
    [f_balancing] = "proc/sys/kernel/numa_balancing",
    [f_swappiness] = "proc/sys/vm/swappiness",
    [f_swaps] = "proc/swaps",
    [f_meminfo] = "proc/meminfo",
};

struct line {
    char text[160];
};

/* The first line of a file; false: it has none, or an empty one. */
static bool read_line(const struct gf_patient *patient, struct line *ret, enum file file)
{
    if (gf_sysfile_read(ret->text, sizeof(ret->text), patient->root, "%s", files[file]) <= 0)
        return false;
    ret->text[strcspn(ret->text, "\n")] = '\0';
    return *ret->text != '\0';
}

/* A line that is a number, from 0. */
static bool read_number(const struct gf_patient *patient, struct line *ret, enum file file, long *ret_value)
{
    char *end;
    if (!read_line(patient, ret, file))
        return false;
    *ret_value = strtol(ret->text, &end, 10);
    return end != ret->text && !*end && *ret_value >= 0;
}

static void unread(struct gf_advices *ret, const char *what, const char *file)
{
    gf_advise(ret, gf_health_unknown, "%s: /%s cannot be read", what, file);
}

static bool at_least(const char *release, long major, long minor)
{
    char *end;
    const long found = strtol(release, &end, 10);
    return found > major || (found == major && *end == '.' && strtol(end + 1, NULL, 10) >= minor);
}

/* 0 or what the kernel answers: vendors add calls to old versions, and sandboxes refuse them in new ones. */
static int populate_error(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return errno;
    const int error = madvise(page, size, MADV_POPULATE_READ) ? errno : 0;
    munmap(page, size);
    return error;
}

void gf_check_kernel(const struct gf_patient *patient, struct gf_advices *ret)
{
    struct line line;

    if (!read_line(patient, &line, f_release) || line.text[0] < '0' || line.text[0] > '9') {
        unread(ret, "the kernel's version", files[f_release]);
        return;
    }
    const bool is_old = !at_least(line.text, 5, 14), is_recorded = gf_patient_is_recorded(patient);
    const int error = is_recorded ? is_old ? EINVAL : 0 : populate_error();
    if (!error) {
        gf_advise(ret, gf_health_fine, "Linux %s lets copies be staged", line.text);
    } else {
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "Linux %s %s", line.text,
                                             is_old ? "is too old to stage copies" : "does not let copies be staged");
        gf_advise_read(advice, "/%s: %s%s%s", files[f_release], line.text,
                       is_recorded ? "" : "; madvise(MADV_POPULATE_READ): ", is_recorded ? "" : strerror(error));
        gf_advise_mend(advice, "without MADV_POPULATE_READ pageable copies stay the driver's: a third of the speed",
                       "a host with Linux 5.14 or later (RHEL 9, Ubuntu 22.04, Debian 12), and no sandbox that refuses the call");
    }
}

/* By prctl(PR_SET_THP_DISABLE), which children and what they execute inherit; then no setting matters. */
static bool process_has_no_huge(const struct gf_patient *patient)
{
    char text[4096];

    gf_sysfile_read(text, sizeof(text), patient->root, "proc/self/status");
    const char *enabled = gf_sysfile_field(text, "THP_enabled");
    return enabled && *enabled == '0';
}

void gf_check_shared_huge(const struct gf_patient *patient, struct gf_advices *ret)
{
    struct gf_thp thp;

    if (process_has_no_huge(patient))
        return; /* gf_check_huge says so */
    gf_thp_read_shared(patient->root, &thp);
    if (!thp.file || !strchr(thp.line, '[')) {
        unread(ret, "huge pages for shared memory", gf_thp_shared_files[1]);
    } else if (thp.on) {
        gf_advise(ret, gf_health_fine, "large pinned buffers get huge pages");
    } else {
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "large pinned buffers get no huge pages");
        gf_advise_read(advice, "/%s: %s", thp.file, thp.line);
        gf_advise_mend(advice,
                       "with them 1 GiB of pinned memory is had 8 times as fast as from the driver, without 3 times (H200)",
                       "echo advise > /%s    (root, on the host; nothing changes for who does not ask)", thp.file);
    }
}

static void advise_huge(struct gf_advices *ret, enum file file, const struct line *line, const char *what, const char *why)
{
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "%s", what);
    gf_advise_read(advice, "/%s: %s", files[file], line->text);
    gf_advise_mend(advice, why, "echo madvise > /%s    (root, on the host)", files[file]);
}

void gf_check_huge(const struct gf_patient *patient, struct gf_advices *ret)
{
    struct line enabled, defrag;

    if (process_has_no_huge(patient)) {
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "this process and its children get no huge pages");
        gf_advise_read(advice, "/proc/self/status: THP_enabled: 0");
        gf_advise_mend(advice, "large blocks and pinned buffers fault in page by page",
                       "find the launcher or service that calls prctl(PR_SET_THP_DISABLE) before it starts programs");
        return;
    }
    if (!read_line(patient, &enabled, f_enabled) || !strchr(enabled.text, '['))
        unread(ret, "huge pages", files[f_enabled]);
    else if (gf_thp_chosen(enabled.text, "never"))
        advise_huge(ret, f_enabled, &enabled, "ordinary memory gets no huge pages", "large blocks fault in page by page");
    else if (read_line(patient, &defrag, f_defrag) && gf_thp_chosen(defrag.text, "always"))
        advise_huge(ret, f_defrag, &defrag, "who needs a huge page waits until memory is tidied up for it",
                    "a page fault takes milliseconds at any moment: a stall of a step or of a request");
    else
        gf_advise(ret, gf_health_fine, "huge pages: %s", enabled.text);
}

/* Bits of a switch that should be off where there are several nodes. */
static void check_switch(const struct gf_patient *patient, struct gf_advices *ret, enum file file, long bits,
                         const char *sysctl, const char *what, const char *why)
{
    struct line line;
    long value;

    if (patient->topo->machine->node_count < 2)
        return;
    if (!read_number(patient, &line, file, &value)) {
        unread(ret, sysctl, files[file]);
    } else if (!(value & bits)) {
        gf_advise(ret, gf_health_fine, "%s is %ld", sysctl, value);
    } else {
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "%s", what);
        gf_advise_read(advice, "/%s: %s", files[file], line.text);
        gf_advise_mend(advice, why, "sysctl -w %s=%ld    (root, on the host)", sysctl, value & ~bits);
    }
}

void gf_check_reclaim(const struct gf_patient *patient, struct gf_advices *ret)
{
    check_switch(patient, ret, f_reclaim, ~0L, "vm.zone_reclaim_mode",
                 "a node that is full is emptied before another one's memory is taken",
                 "the page cache of data sets is thrown away, and who allocates waits for it");
}

void gf_check_balancing(const struct gf_patient *patient, struct gf_advices *ret)
{
    /* Its second bit moves pages between fast and slow memory only, by faults on the slow one. */
    check_switch(patient, ret, f_balancing, 1, "kernel.numa_balancing",
                 "the kernel moves pages between nodes by itself",
                 "it finds out by page faults in all threads where memory is used; placement has settled that");
}

/* Compressed memory is no disk. All of /proc/swaps must be that; a file that names none says nothing. */
static bool swaps_to_memory(const struct gf_patient *patient)
{
    static char text[4096];

    if (gf_sysfile_read(text, sizeof(text), patient->root, "%s", files[f_swaps]) <= 0)
        return false;
    const char *line = strchr(text, '\n');
    bool any = false;
    for (; line; line = strchr(line + 1, '\n'), any = true)
        if (strncmp(line + 1, "/dev/zram", strlen("/dev/zram")) != 0 && strncmp(line + 1, "/zram", strlen("/zram")) != 0)
            return false;
    return any;
}

void gf_check_swap(const struct gf_patient *patient, struct gf_advices *ret)
{
    static char text[8192];
    struct line line;
    long swappiness;

    gf_sysfile_read(text, sizeof(text), patient->root, "%s", files[f_meminfo]);
    const char *total = gf_sysfile_field(text, "SwapTotal");
    if (!total || *total < '0' || *total > '9') {
        unread(ret, "swapping", files[f_meminfo]);
        return;
    }
    if (strtoull(total, NULL, 10) == 0 || gf_cgroup_has_no_swap(patient->root)) {
        gf_advise(ret, gf_health_fine, "there is no swap");
        return;
    }
    if (swaps_to_memory(patient)) {
        gf_advise(ret, gf_health_fine, "what is swapped out stays in memory (zram)");
        return;
    }
    if (!read_number(patient, &line, f_swappiness, &swappiness)) {
        unread(ret, "swapping", files[f_swappiness]);
        return;
    }
    if (swappiness <= SWAPPINESS_MOST) {
        gf_advise(ret, gf_health_fine, "swapping is the last resort (vm.swappiness %s)", line.text);
        return;
    }
    struct gf_advice *advice = gf_advise(ret, gf_health_mend, "memory is swapped out before it is short");
    gf_advise_read(advice, "/%s: %s; /%s: SwapTotal %llu kB", files[f_swappiness], line.text, files[f_meminfo],
                   strtoull(total, NULL, 10));
    gf_advise_mend(advice, "what a training script has not touched for a while is read back from a disk in the middle of a step",
                   "sysctl -w vm.swappiness=1    (root, on the host)");
}

int gf_doctor_record(const char *folder)
{
    int error = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(files) && !error; i++)
        error = gf_machine_record_file(folder, files[i]);
    for (size_t i = 0; i < GF_ARRAY_LEN(gf_thp_shared_files) && !error; i++)
        error = gf_machine_record_file(folder, gf_thp_shared_files[i]);
    return error ? error : gf_doctor_record_clocks(folder);
}
