/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs, links, driver. */
#include "base/input_file.h"
#include "host/locate.h"
#include "os/procfs.h"
#include "tools/doctor/finding.h"

#include <stdlib.h>

#define LIST_MAX 256

/* Finds GPUs of WSL and Jetson, which are not PCI devices. */
static bool find_non_pci_gpu(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char *const devices[] = {"/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu"};

    for (size_t i = 0; i < GF_ARRAY_LEN(devices); i++)
        if (gf_input_access_in(input->root, devices[i], F_OK)) {
            gf_unknown(ret, "GPUs behind %s are not on the PCI bus", devices[i]);
            return true;
        }
    return false;
}

void gf_check_gpus(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_topo *topo = input->topo;
    const struct gf_visible_gpus *visible = &topo->visible;

    if (visible->count) {
        gf_ok(ret, "%s%zu GPU%s visible", visible->doubt ? "up to " : "", visible->count,
              visible->count == 1 ? " is" : "s are");
        if (visible->doubt)
            gf_evidence(ret, "%s", visible->doubt);
        return;
    }
    if (!topo->gpu_count && find_non_pci_gpu(input, ret))
        return;
    if (topo->gpu_count)
        gf_problem(ret, "none of the machine's GPUs (%zu) is visible", topo->gpu_count);
    else
        gf_problem(ret, "there is no NVIDIA GPU here");
    gf_evidence(
        ret, "/sys/bus/pci/devices, /proc/driver/nvidia/gpus, /dev/nvidia*, CUDA_VISIBLE_DEVICES");
    gf_fix(ret, "docker run --gpus all (Kubernetes: the limit nvidia.com/gpu; Slurm: "
                "--gpus); load the driver's module on the host; check "
                "CUDA_VISIBLE_DEVICES");
}

static const struct gf_topo_gpu *next_visible(const struct gf_topo *topo, size_t *at)
{
    while (*at < topo->gpu_count)
        if (topo->gpus[(*at)++].visible)
            return &topo->gpus[*at - 1];
    return NULL;
}

/*
 * Checks only the width, because an idle GPU lowers its link's speed. Widths of 0, 63 and 255 mean
 * that a virtual machine hides the real width.
 */
void gf_check_links(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_topo_gpu *gpu;
    long now, most;

    for (size_t at = 0; (gpu = next_visible(input->topo, &at));) {
        if (!gf_host_number(input, &now, "sys/bus/pci/devices/%s/current_link_width", gpu->bdf) ||
            !gf_host_number(input, &most, "sys/bus/pci/devices/%s/max_link_width", gpu->bdf) ||
            !now || now > 32 || !most || most > 32)
            continue;
        if (now >= most) {
            gf_gpu_ok(ret, gpu->bdf, "the link uses all %ld lanes", most);
            continue;
        }
        gf_gpu_problem(ret, gpu->bdf, "the link uses %ld of %ld lanes", now, most);
        gf_evidence(ret, "/sys/bus/pci/devices/%s/current_link_width: %ld, max_link_width: %ld",
                    gpu->bdf, now, most);
        gf_fix(ret, "use another slot, reseat the card or its riser, or change the "
                    "slot's bifurcation in the firmware");
    }
}

static const char *read_device_file(const struct gf_check_input *input, const char *bdf,
                                    const char *file, char *ret, size_t size)
{
    const int length =
        gf_procfs_read(ret, size, input->root, "sys/bus/pci/devices/%s/%s", bdf, file);
    return length < 0 ? "none" : length == 0 ? "empty" : ret;
}

static void report_unknown_node(const struct gf_check_input *input, const char *bdf,
                                struct gf_findings *ret)
{
    char list[LIST_MAX], node[16];
    gf_gpu_problem(ret, bdf, "NUMA node unknown");

    gf_evidence(ret, "/sys/bus/pci/devices/%s/numa_node: %s; local_cpulist: %s", bdf,
                read_device_file(input, bdf, "numa_node", node, sizeof(node)),
                read_device_file(input, bdf, "local_cpulist", list, sizeof(list)));
    gf_fix(ret, "enable NUMA in the firmware; in a virtual machine, give the GPU a "
                "node in the hypervisor (QEMU: pxb-pcie,numa_node=N)");
}

void gf_check_nodes(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_topo *topo = input->topo;
    const struct gf_topo_gpu *gpu;

    if (topo->machine->node_count < 2) {
        if (topo->visible.count)
            gf_ok(ret, "one NUMA node: all CPUs and memory are near the GPU");
        return;
    }
    for (size_t at = 0; (gpu = next_visible(topo, &at));) {
        if (gpu->source)
            gf_gpu_ok(ret, gpu->bdf, "on node %s (%s)", gf_set_text(&gpu->nodes, LIST_MAX),
                      gpu->source);
        else
            report_unknown_node(input, gpu->bdf, ret);
    }
}

/*
 * The library binds all threads only if the process may use enough CPUs of the GPU's socket. If it
 * may use fewer, and CPUs of other sockets, returns how many are enough, otherwise 0. The check
 * `feeding` reports a process that has too few CPUs in total.
 */
static unsigned lacking_cpus(const struct gf_topo *topo, const struct gf_topo_gpu *gpu)
{
    const struct gf_cpus *start = &topo->facts.start;
    const unsigned need = gf_min_cpus(gf_set_count(start), topo->facts.cpu_quota);
    struct gf_cpus socket;

    gf_locate_socket(topo->machine, &gpu->nodes, &socket);
    gf_set_and(&socket, &socket, start);
    const bool lacks = gf_set_count(start) >= need && gf_set_count(&socket) < need &&
                       !gf_set_within(start, &socket);
    return lacks ? need : 0;
}

static void report_usable(const struct gf_topo *topo, const struct gf_topo_gpu *gpu,
                          struct gf_findings *ret)
{
    const unsigned usable = gf_set_count(&gpu->usable), all = gf_set_count(&gpu->cpus);
    const unsigned need = lacking_cpus(topo, gpu);
    const char *near = gf_set_text(&gpu->cpus, LIST_MAX);

    if (!need) {
        gf_gpu_ok(ret, gpu->bdf, "this process may use %u of the %u CPUs of the GPU's node", usable,
                  all);
        return;
    }
    gf_gpu_problem(ret, gpu->bdf,
                   "this process may use only %u of the %u CPUs of the GPU's node: %s", usable, all,
                   usable > 2 ? "only threads that submit work are bound" : "nothing is bound");
    gf_evidence(ret,
                "the GPU's node has CPUs %s; this process may use %s; binding all threads "
                "needs %u near the GPU",
                near, gf_set_text(&topo->facts.start, LIST_MAX), need);
    gf_fix(ret, "give the process at least %u of the CPUs %s (docker run --cpuset-cpus)", need,
           near);
}

void gf_check_cpus(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_topo_gpu *gpu;

    if (input->topo->machine->node_count < 2 || !input->topo->has_mask)
        return;
    for (size_t at = 0; (gpu = next_visible(input->topo, &at));) {
        if (!gpu->source)
            continue;
        const char *near = gf_set_text(&gpu->cpus, LIST_MAX);
        if (!gf_set_empty(&gpu->usable)) {
            report_usable(input->topo, gpu, ret);
            continue;
        }
        gf_gpu_problem(ret, gpu->bdf, "this process may use no CPU of the GPU's node");
        gf_evidence(ret, "the GPU's node has CPUs %s; this process may use %s", near,
                    gf_set_text(&input->topo->facts.start, LIST_MAX));
        gf_fix(ret,
               "docker run --cpuset-cpus %s (Kubernetes: the static CPU manager with "
               "topology policy restricted; Slurm: --gpu-bind=single:1)",
               near);
    }
}

#define FREE_LEAST (UINT64_C(1) << 30)
/* If other nodes have no more than this either, the kernel reclaims pages of the GPU's node. */
#define FREE_ELSEWHERE (UINT64_C(4) << 30)

/* MemFree of the node in bytes; false if it is unknown. */
static bool read_free(const struct gf_check_input *input, unsigned node, uint64_t *ret)
{
    static const char key[] = "MemFree:";
    char text[4096];

    if (gf_procfs_read(text, sizeof(text), input->root, "sys/devices/system/node/node%u/meminfo",
                       node) <= 0)
        return false;
    const char *at = strstr(text, key);
    if (at)
        *ret = strtoull(at + strlen(key), NULL, 10) << 10;
    return at;
}

/* A recording may lack the limits of the process. */
static bool has_limits(const struct gf_topo *topo)
{
    return topo->has_mask && !gf_set_empty(&topo->facts.mems);
}

/* The most free memory of a node; 0 if it is unknown. Ignores memory of GPUs and expanders. */
static uint64_t most_free(const struct gf_check_input *input, const struct gf_nodes *nodes,
                          bool among)
{
    const struct gf_machine *machine = input->topo->machine;
    const bool limited = has_limits(input->topo);
    uint64_t most = 0, found;

    for (size_t i = 0; i < machine->node_count; i++) {
        const struct gf_node *node = &machine->nodes[i];
        if (node->is_device || gf_set_test(nodes, node->id) != among ||
            (limited && !gf_set_test(&input->topo->facts.mems, node->id)))
            continue;
        if (read_free(input, node->id, &found) && found > most)
            most = found;
    }
    return most;
}

static void report_forbidden(const struct gf_check_input *input, const struct gf_topo_gpu *gpu,
                             struct gf_findings *ret)
{
    const char *near = gf_set_text(&gpu->nodes, 128);

    gf_gpu_problem(ret, gpu->bdf, "this process may use no memory of its node");
    gf_evidence(ret, "/proc/self/status: Mems_allowed_list: %s; the GPU's node: %s",
                gf_set_text(&input->topo->facts.mems, 128), near);
    gf_fix(ret,
           "docker run --cpuset-mems %s (Kubernetes: the memory manager's policy "
           "Static; Slurm: srun --mem-bind=local)",
           near);
}

static void report_full(uint64_t near, uint64_t far, const struct gf_topo_gpu *gpu,
                        struct gf_findings *ret)
{
    const char *nodes = gf_set_text(&gpu->nodes, 128);

    gf_gpu_problem(ret, gpu->bdf,
                   "only %lu MiB are free on node %s, so new pages are "
                   "allocated on other nodes",
                   near >> 20, nodes);
    gf_evidence(ret,
                "/sys/devices/system/node/node%s/meminfo: MemFree; another node has %.3g "
                "GiB",
                nodes, (double)far / (1 << 30));
    gf_fix(ret, "sysctl -w vm.drop_caches=1    (root, on the host, once; all programs of "
                "the host read their files again)");
}

void gf_check_node_memory(const struct gf_check_input *input, struct gf_findings *ret)
{
    const struct gf_topo *topo = input->topo;
    const struct gf_topo_gpu *gpu;

    if (topo->machine->node_count < 2)
        return;
    for (size_t at = 0; (gpu = next_visible(topo, &at));) {
        if (!gpu->source)
            continue;
        if (has_limits(topo) && !gf_set_meet(&topo->facts.mems, &gpu->nodes)) {
            report_forbidden(input, gpu, ret);
            continue;
        }
        const uint64_t near = most_free(input, &gpu->nodes, true);
        const uint64_t far = most_free(input, &gpu->nodes, false);
        if (near && near < FREE_LEAST && far > FREE_ELSEWHERE)
            report_full(near, far, gpu, ret);
        else if (near)
            gf_gpu_ok(ret, gpu->bdf, "%.3g GiB are free on its node", (double)near / (1 << 30));
    }
}

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
    const char *toolkit = getenv("CUDA_VERSION");
    const unsigned cuda = toolkit ? (unsigned)strtoul(toolkit, NULL, 10) : 0;

    if (!gf_host_line(input, line, sizeof(line), "proc/driver/nvidia/version"))
        return;
    const unsigned branch = parse_branch(line);
    if (!branch)
        return;
    for (size_t i = 0; i < GF_ARRAY_LEN(oldest); i++) {
        if (oldest[i].cuda != cuda || branch >= oldest[i].driver)
            continue;
        gf_problem(ret, "driver %u is too old for CUDA %u", branch, cuda);
        gf_evidence(ret, "/proc/driver/nvidia/version: %u; CUDA_VERSION=%s", branch, toolkit);
        gf_fix(ret, "install driver %u or later, or use an image with an older CUDA",
               oldest[i].driver);
        return;
    }
    gf_ok(ret, "driver %u%s", branch, cuda ? " supports the toolkit" : "");
}

/* NVIDIA's error numbers that a faulty or killed program causes come first. */
#define RECORDED_LOG_READS 256
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

/* The end of the brackets is searched only up to the next ones, so the time is proportional to the text. */
static void scan_text(const char *text, struct first_lines *first)
{
    static const char begin[] = "NVRM: Xid (", end[] = "): ";

    for (const char *line = text; (line = strstr(line, begin)); line++) {
        const char *at = line + strlen(begin);
        at += strcspn(at, "()\n");
        const unsigned long xid = gf_begins(at, end) ? strtoul(at + strlen(end), NULL, 10) : 0;
        for (size_t i = 0; i < GF_ARRAY_LEN(xids); i++)
            if (xids[i].number == xid && !*first->text[i])
                snprintf(first->text[i], sizeof(first->text[i]), "%.*s", (int)strcspn(line, "\n"),
                         line);
    }
}

/*
 * Scans the kernel's log. Returns 0 or an errno. Each read of /dev/kmsg returns one message, or
 * fails with EPIPE if messages were overwritten. A recording contains the log as an ordinary file,
 * perhaps a sparse one of terabytes.
 */
static int scan_log(const struct gf_check_input *input, struct first_lines *first)
{
    static char text[256 * 1024];
    unsigned reads = 0;
    ssize_t length;

    const int fd = gf_procfs_open_in(input->root, "/dev/kmsg");
    if (fd < 0)
        return -fd;
    while (((length = read(fd, text, sizeof(text) - 1)) > 0 || (length < 0 && errno == EPIPE)) &&
           (!gf_check_is_recorded(input) || reads++ < RECORDED_LOG_READS)) {
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
        gf_problem(ret, "Xid %u: %s", xids[i].number, xids[i].meaning);
        gf_evidence(ret, "/dev/kmsg: first message: %s", first.text[i]);
        gf_fix(ret, "%s", xids[i].fix);
        if (i < XIDS_OF_PROGRAMS)
            ret->last->why = "a program that used the GPU has failed";
    }
    if (ret->count == before)
        gf_ok(ret, "the kernel's log has no error of a GPU");
}
