/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the version of NVIDIA's driver, and the driver's error messages in the kernel's log. */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "os/launch.h"
#include "os/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The oldest driver branch for each major version of CUDA, from NVIDIA's release notes. */
static const struct {
    unsigned cuda, driver;
} oldest[] = {{13, 580}, {12, 525}, {11, 450}};

/*
 * Returns the driver's branch, which is 535 for "Kernel Module 535.104.05"; 0 if the line has no
 * version.
 */
static unsigned parse_branch(const char *line)
{
    for (const char *at = line; *at; at++) {
        char *end;
        if (*at < '0' || *at > '9' || (at > line && at[-1] != ' '))
            continue;
        const unsigned long value = strtoul(at, &end, 10);
        if (*end == '.' && value >= 100 && value < 10000)
            return (unsigned)value;
    }
    return 0;
}

void gf_check_driver(const struct gf_check_input *input, struct gf_findings *ret)
{
    char line[256];
    /* NVIDIA's container images set this variable. */
    const char *toolkit = gf_launch_variable(input->envp, "CUDA_VERSION");
    const unsigned cuda = toolkit ? (unsigned)strtoul(toolkit, NULL, 10) : 0;

    if (!gf_host_line(input, line, sizeof(line), "proc/driver/nvidia/version"))
        return;
    const unsigned branch = parse_branch(line);
    if (!branch)
        return;
    for (size_t i = 0; i < GF_ARRAY_LEN(oldest); i++) {
        if (oldest[i].cuda != cuda || branch >= oldest[i].driver)
            continue;
        struct gf_finding *finding = gf_finding_add(
            ret, gf_status_problem, "driver %u is too old for CUDA %u", branch, cuda);
        gf_finding_evidence(finding, "/proc/driver/nvidia/version: %u; CUDA_VERSION=%s", branch,
                            toolkit);
        gf_finding_fix(finding, "install driver %u or later, or use an image with an older CUDA",
                       oldest[i].driver);
        return;
    }
    gf_finding_add(ret, gf_status_ok, "driver %u%s", branch, cuda ? " supports the toolkit" : "");
}

/* NVIDIA's error numbers that a faulty or killed program causes come first. */
#define XIDS_OF_PROGRAMS 4

static const struct {
    unsigned number;
    const char *meaning, *fix;
} xids[] = {
    {13, "the GPU stopped a faulty kernel of the program", "debug the program: compute-sanitizer"},
    {31, "the program accessed an invalid GPU address", "debug the program: compute-sanitizer"},
    {43, "the driver stopped a faulty program", "debug the program: compute-sanitizer"},
    {45, "the driver ended a program's work after an earlier error, or the program was killed",
     "look for the Xid before it, or for the signal that killed the program"},
    {48, "an uncorrectable memory error",
     "reset the GPU: nvidia-smi -r -i GPU; replace it if it recurs"},
    {63, "a row of GPU memory was remapped", "reset the GPU when it is idle: nvidia-smi -r -i GPU"},
    {64, "remapping a row of GPU memory failed", "replace the GPU"},
    {74, "an NVLink error", "reset all GPUs; check the baseboard and Fabric Manager"},
    {79, "the GPU has fallen off the bus", "reboot the host; check power, temperature and slot"},
    {94, "a contained memory error", "restart the program; reset the GPU when it is idle"},
    {95, "an uncontained memory error",
     "reset the GPU: nvidia-smi -r -i GPU; replace it if it recurs"},
    {119, "the GPU's firmware does not answer", "reset the GPU or reboot; update the driver"},
};

/* For each row of `xids`, the first line of the kernel's log with its number, or "". */
struct first_lines {
    char text[GF_ARRAY_LEN(xids)][160];
};

static void scan_text(const char *text, struct first_lines *first)
{
    for (const char *at = text; (at = strstr(at, "NVRM: Xid ("));) {
        const char *number = strstr(at, "): ");
        at++;
        if (!number)
            return;
        const unsigned long xid = strtoul(number + 3, NULL, 10);
        for (size_t i = 0; i < GF_ARRAY_LEN(xids); i++) {
            if (xids[i].number != xid)
                continue;
            if (!*first->text[i])
                snprintf(first->text[i], sizeof(first->text[i]), "%.*s", (int)strcspn(at - 1, "\n"),
                         at - 1);
        }
    }
}

/*
 * Scans the kernel's log. Returns 0 or an errno. Each read of /dev/kmsg returns one message, or
 * fails with EPIPE if messages were overwritten. A recording contains the log as an ordinary file.
 */
static int scan_log(const struct gf_check_input *input, struct first_lines *first)
{
    static char text[256 * 1024];
    char path[GF_PROCFS_PATH_MAX];
    ssize_t length;

    snprintf(path, sizeof(path), "%s/dev/kmsg", input->root);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno;
    while ((length = read(fd, text, sizeof(text) - 1)) > 0 || (length < 0 && errno == EPIPE)) {
        text[length > 0 ? length : 0] = '\0';
        scan_text(text, first);
    }
    const int error = length < 0 && errno != EAGAIN ? errno : 0;
    close(fd);
    return error;
}

void gf_check_gpu_errors(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct first_lines first = {0};
    const size_t before = ret->count;

    if (scan_log(input, &first))
        return; /* only root may read /dev/kmsg, and most containers lack it */
    for (size_t i = 0; i < GF_ARRAY_LEN(xids); i++) {
        if (!*first.text[i])
            continue;
        struct gf_finding *finding =
            gf_finding_add(ret, gf_status_problem, "Xid %u: %s", xids[i].number, xids[i].meaning);
        gf_finding_evidence(finding, "/dev/kmsg: first message: %s", first.text[i]);
        gf_finding_fix(finding, "%s", xids[i].fix);
        if (i < XIDS_OF_PROGRAMS)
            finding->why = "a program that used the GPU has failed";
    }
    if (ret->count == before)
        gf_finding_add(ret, gf_status_ok, "the kernel's log has no error of a GPU");
}
