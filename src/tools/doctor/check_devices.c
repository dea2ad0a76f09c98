/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupts, IOMMU, storage. */
#include "base/fmt.h"
#include "base/input_file.h"
#include "host/machine.h"
#include "os/procfs.h"
#include "tools/common/cli.h"
#include "tools/doctor/finding.h"

#include <limits.h>
#include <stdlib.h>

#define DEVICES "sys/bus/pci/devices"

struct device {
    const char *bdf;
    const char *kind;
    struct gf_cpus local;
};

/* Returns the kind of a PCI device, for messages; NULL if the check ignores such devices. */
static const char *device_kind(const char *class, const char *vendor)
{
    if (strncmp(vendor, "0x10de", 6) == 0 && strncmp(class, "0x03", 4) == 0)
        return "GPU";
    if (strncmp(class, "0x02", 4) == 0)
        return "network card";
    return strncmp(class, "0x0108", 6) == 0 ? "NVMe disk" : NULL;
}

/* Returns false if the check ignores this kind of device, or if the device's node is unknown. */
static bool read_device(const struct gf_check_input *input, const char *bdf, struct device *ret)
{
    char class[16], vendor[16];
    long node;

    *ret = (struct device){.bdf = bdf};
    if (!gf_host_line(input, class, sizeof(class), DEVICES "/%s/class", bdf) ||
        !gf_host_line(input, vendor, sizeof(vendor), DEVICES "/%s/vendor", bdf) ||
        !gf_host_number(input, &node, DEVICES "/%s/numa_node", bdf))
        return false;
    ret->kind = device_kind(class, vendor);
    return ret->kind &&
           gf_procfs_set(&ret->local, input->root, gf_text(DEVICES "/%s/local_cpulist", bdf)) ==
               0 &&
           !gf_set_empty(&ret->local);
}

/* Of all devices. A recorded machine may have any number of links to one device. */
#define INTERRUPTS_MOST 32768

/*
 * Counts in *ret_all the device's interrupts, and in *ret_far those that only CPUs of other nodes
 * serve. Reads at most *left interrupts.
 */
static void count_interrupts(const struct gf_check_input *input, const struct device *device,
                             unsigned *left, unsigned *ret_all, unsigned *ret_far)
{
    struct gf_cpus cpus;

    *ret_all = *ret_far = 0;
    GF_FOLDER_IN(folder, input->root, gf_text("/" DEVICES "/%s/msi_irqs", device->bdf));
    for (const char *name; *left && (name = gf_folder_next(&folder)); --*left) {
        if (*name < '0' || *name > '9')
            continue;
        if (gf_procfs_set(&cpus, input->root,
                          gf_text("proc/irq/%.16s/effective_affinity_list", name)) ||
            gf_set_empty(&cpus))
            continue;
        gf_set_and(&cpus, &cpus, &device->local);
        ++*ret_all;
        *ret_far += gf_set_empty(&cpus);
    }
}

static void report_far_interrupts(const struct device *device, unsigned count,
                                  struct gf_findings *ret)
{
    const char *near = gf_set_text(&device->local, 64);

    gf_problem(ret, "%s %s: CPUs of other nodes serve all interrupts", device->kind, device->bdf);
    gf_evidence(ret,
                "%u of %u in /sys/bus/pci/devices/%s/msi_irqs: /proc/irq/*/"
                "effective_affinity_list without CPUs %s",
                count, count, device->bdf, near);
    gf_command(ret,
               "for i in /sys/bus/pci/devices/%s/msi_irqs/*; do echo %s > "
               "\"/proc/irq/${i##*/}/smp_affinity_list\"; done",
               device->bdf, near);
}

#define INTERRUPT_PROBLEMS_MAX 8

/* A device whose interrupts are spread over all nodes, such as an NVMe disk, is not a problem. */
void gf_check_interrupts(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct device device;
    unsigned devices = 0, problems = 0, left = INTERRUPTS_MOST, all, far;

    if (input->topo->machine->node_count < 2)
        return;
    GF_FOLDER_IN(folder, input->root, "/" DEVICES);
    for (const char *name; (name = gf_folder_next(&folder));) {
        if (!gf_pci_is_canonical(name) || !read_device(input, name, &device))
            continue;
        count_interrupts(input, &device, &left, &all, &far);
        devices += all > 0;
        if (all && far == all && problems++ < INTERRUPT_PROBLEMS_MAX)
            report_far_interrupts(&device, far, ret);
    }
    if (devices && !problems)
        gf_ok(ret, "interrupts of %u devices reach CPUs of their nodes", devices);
}

/*
 * NVIDIA's open kernel modules export GPU memory by DMA-BUF; the proprietary ones need
 * nvidia_peermem.
 */
void gf_check_peer_memory(const struct gf_check_input *input, struct gf_findings *ret)
{
    char version[256];

    if (!gf_host_has(input, "dev/infiniband", "") ||
        !gf_host_line(input, version, sizeof(version), "proc/driver/nvidia/version"))
        return;
    const bool is_open = strstr(version, "Open Kernel Module");
    if (gf_ok_if(ret,
                 is_open || gf_host_has(input, "sys/module/nvidia_peermem", "") ||
                     gf_host_has(input, "sys/module/nv_peer_mem", ""),
                 "network cards can access GPU memory (%s)",
                 is_open ? "DMA-BUF" : "nvidia_peermem"))
        return;
    gf_problem(ret, "network cards cannot access GPU memory");
    gf_evidence(ret, "/dev/infiniband; no /sys/module/nvidia_peermem; "
                     "/proc/driver/nvidia/version: no open kernel module");
    gf_command(ret, "modprobe nvidia_peermem");
}

void gf_check_iommu(const struct gf_check_input *input, struct gf_findings *ret)
{
    char type[32];

    for (size_t i = 0; i < input->topo->gpu_count; i++) {
        const struct gf_topo_gpu *gpu = &input->topo->gpus[i];
        if (!gpu->visible ||
            !gf_host_line(input, type, sizeof(type), DEVICES "/%s/iommu_group/type", gpu->bdf))
            continue;
        if (strcmp(type, "identity") == 0) {
            gf_gpu_ok(ret, gpu->bdf, "the IOMMU passes addresses through");
        } else if (strncmp(type, "DMA", 3) == 0) {
            gf_gpu_problem(ret, gpu->bdf, "the IOMMU translates each address");
            gf_evidence(ret, "/" DEVICES "/%s/iommu_group/type: %s", gpu->bdf, type);
            gf_fix(ret, "add iommu=pt (arm64: iommu.passthrough=1) to the boot loader's "
                        "configuration, and reboot");
        }
    }
}

/* Offsets and values of the PCI specification. */
enum {
    CONFIG_SIZE = 4096,
    STATUS = 0x06,
    STATUS_HAS_CAPABILITIES = 0x10,
    FIRST_CAPABILITY = 0x34,
    CAPABILITY_PCIE = 0x10,
    PCIE_FLAGS = 2,
    PORT_OF_SWITCH_DOWN = 6,
    FIRST_EXTENDED = 0x100,
    EXTENDED_ACS = 0x0d,
    ACS_CONTROL = 6,
    ACS_REDIRECTS = 0x04 | 0x08, /* of requests, and of completions */
};

struct config {
    unsigned char bytes[CONFIG_SIZE + 1];
};

static unsigned read_u16(const struct config *config, unsigned at)
{
    return config->bytes[at] | (unsigned)config->bytes[at + 1] << 8;
}

/* Redirection in a root port changes nothing, because transfers that reach it are at the root already. */
static bool is_switch_port(const struct config *config)
{
    if (!(config->bytes[STATUS] & STATUS_HAS_CAPABILITIES))
        return false;
    unsigned at = config->bytes[FIRST_CAPABILITY] & 0xfcU;
    for (unsigned left = 48; at >= 0x40 && left; at = config->bytes[at + 1] & 0xfcU, left--)
        if (config->bytes[at] == CAPABILITY_PCIE)
            return (read_u16(config, at + PCIE_FLAGS) >> 4 & 15) == PORT_OF_SWITCH_DOWN;
    return false;
}

/* The control register of access control services (ACS); -1 if the port has none. */
static int find_acs_control(const struct config *config)
{
    unsigned at = FIRST_EXTENDED;

    for (unsigned left = 64; at >= FIRST_EXTENDED && at <= CONFIG_SIZE - 8 && left; left--) {
        if (read_u16(config, at) == EXTENDED_ACS)
            return (int)read_u16(config, at + ACS_CONTROL);
        at = read_u16(config, at + 2) >> 4 & 0xffcU;
    }
    return -1;
}

/* Without CAP_SYS_ADMIN, the kernel shows only the first 64 bytes, so no port is found. */
static int read_acs_control(const struct gf_check_input *input, const char *bdf)
{
    struct config config = {0};
    char class[16];

    if (!gf_host_line(input, class, sizeof(class), DEVICES "/%s/class", bdf) ||
        strncmp(class, "0x0604", 6) != 0 ||
        gf_procfs_read((char *)config.bytes, sizeof(config.bytes), input->root,
                       DEVICES "/%s/config", bdf) <= FIRST_EXTENDED)
        return -1;
    return is_switch_port(&config) ? find_acs_control(&config) : -1;
}

#define REDIRECTING_LISTED 40

struct switch_ports {
    unsigned count, redirecting;
    unsigned first_control;             /* of the first port that redirects */
    char list[REDIRECTING_LISTED * 14]; /* the ports that redirect, each after a blank */
};

static void add_port(struct switch_ports *ports, const char *bdf, unsigned control)
{
    const size_t length = strlen(ports->list);

    ports->count++;
    if (!(control & ACS_REDIRECTS))
        return;
    if (!ports->redirecting++)
        ports->first_control = control;
    if (ports->redirecting <= REDIRECTING_LISTED)
        snprintf(ports->list + length, sizeof(ports->list) - length, " %.13s", bdf);
}

/*
 * The fix is no command of the script, because virtual machines rely on the redirection. It clears
 * only ACS_REDIRECTS.
 */
static void report_redirecting(const struct switch_ports *ports, struct gf_findings *ret)
{
    gf_problem(ret, "%u port%s of PCIe switches send%s transfers between devices to the CPU",
               ports->redirecting, ports->redirecting == 1 ? "" : "s",
               ports->redirecting == 1 ? "s" : "");

    gf_evidence(ret, "/" DEVICES "/%.*s/config: ACS control 0x%02x; %u more ports",
                (int)strcspn(ports->list + 1, " "), ports->list + 1, ports->first_control,
                ports->redirecting - 1);
    gf_fix(ret,
           "for i in%s; do setpci -s $i ECAP_ACS+6.w=0:%x; done    (root, on the host; not "
           "on a host that passes devices to virtual machines: it removes their isolation)",
           ports->list, ACS_REDIRECTS);
}

GF_COMPARATOR(by_name, __typeof__(char[20]), strcmp(*one, *other))

void gf_check_acs(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct switch_ports ports = {0};
    GF_OWNED char(*names)[20] = gf_cli_memory(calloc(GF_FOLDER_MOST, sizeof(*names)));
    size_t count = 0;
    int control;

    GF_FOLDER_IN(folder, input->root, "/" DEVICES);
    for (const char *name; (name = gf_folder_next(&folder));)
        if (gf_pci_is_canonical(name))
            gf_fmt(names[count++], sizeof(*names), "%s", name);
    qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count; i++)
        if ((control = read_acs_control(input, names[i])) >= 0)
            add_port(&ports, names[i], (unsigned)control);
    if (ports.redirecting)
        report_redirecting(&ports, ret);
    else if (ports.count)
        gf_ok(ret, "PCIe switches pass transfers between devices on");
}

/* Even a fast disk needs more than a few seconds to write this many bytes. */
#define DIRTY_MOST (UINT64_C(32) << 30)
#define READ_AHEAD_LEAST_KB 128 /* the kernel's default */

void gf_check_write_back(const struct gf_check_input *input, struct gf_findings *ret)
{
    long bytes = 0, percent;
    uint64_t memory = 0;

    if (gf_host_number(input, &bytes, "proc/sys/vm/dirty_background_bytes") && bytes) {
        percent = 0;
    } else if (!gf_host_meminfo(input, (const char *const[]){"MemTotal"}, &memory, 1) ||
               !gf_host_number(input, &percent, "proc/sys/vm/dirty_background_ratio")) {
        return;
    }
    memory <<= 10;
    const uint64_t most = bytes ? (uint64_t)bytes : memory / 100 * (uint64_t)percent;
    if (gf_ok_if(ret, most <= DIRTY_MOST, "write-back begins at %.3g GiB of dirty pages",
                 (double)most / (1 << 30)))
        return;
    gf_problem(ret, "write-back begins only at %.3g GiB of dirty pages", (double)most / (1 << 30));
    if (bytes)
        gf_evidence(ret, "/proc/sys/vm/dirty_background_bytes: %ld", bytes);
    else
        gf_evidence(ret, "/proc/sys/vm/dirty_background_ratio: %ld; MemTotal: %.4g GiB", percent,
                    (double)memory / (1 << 30));
    gf_command(ret, "sysctl -w vm.dirty_background_bytes=%lu vm.dirty_bytes=%lu", 4UL << 30,
               16UL << 30);
}

struct mount {
    char device[32], type[32], point[1024], options[256]; /* options: of the file system */
};

/* Parses a line of mountinfo: "36 35 259:2 /root /point options - type source options" */
static bool parse_mount(const char *line, struct mount *ret)
{
    const char *rest = strstr(line, " - ");
    char major[16], minor[16];

    if (!rest ||
        sscanf(line, "%*s %*s %15[0-9]:%15[0-9] %*s %1023s", major, minor, ret->point) != 3 ||
        *ret->point != '/' || sscanf(rest + 3, "%31s", ret->type) != 1)
        return false;
    if (sscanf(rest + 3, "%*s %*s %255s", ret->options) != 1)
        *ret->options = '\0';
    snprintf(ret->device, sizeof(ret->device), "%s:%s", major, minor);
    return true;
}

static bool is_below(const char *path, const char *point)
{
    const size_t length = strlen(point);
    return strcmp(point, "/") == 0 ||
           (strncmp(path, point, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

/*
 * Finds the mount that contains the folder: the one with the longest matching path. Of several
 * mounts with the same path, the last one counts, because it hides the others.
 */
static bool find_mount(const struct gf_check_input *input, const char *folder, struct mount *ret)
{
    char buf[4096];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    struct mount mount;
    bool found = false;

    if (!gf_procfs_lines_open_in(&lines, input->root, "/proc/self/mountinfo"))
        return false;
    for (char *line; (line = gf_procfs_lines_next(&lines));)
        if (!lines.continued && parse_mount(line, &mount) && is_below(folder, mount.point) &&
            (!found || strlen(mount.point) >= strlen(ret->point))) {
            *ret = mount;
            found = true;
        }
    gf_procfs_lines_close(&lines);
    return found;
}

static bool is_among(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Returns the read-ahead of a device in KiB; -1 if the device has none. */
static long read_ahead(const struct gf_check_input *input, const char *device)
{
    long value;

    if (gf_host_number(input, &value, "sys/class/bdi/%s/read_ahead_kb", device) ||
        gf_host_number(input, &value, "sys/dev/block/%s/queue/read_ahead_kb", device) ||
        gf_host_number(input, &value, "sys/dev/block/%s/../queue/read_ahead_kb", device))
        return value;
    return -1;
}

void gf_check_data(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char *const slow[] = {"nfs",        "nfs4",         "cifs",         "smb3",
                                       "9p",         "virtiofs",     "fuse",         "fuse.s3fs",
                                       "fuse.sshfs", "fuse.gcsfuse", "fuse.mount-s3"};
    static const char *const layers[] = {"overlay", "aufs", "fuse.fuse-overlayfs"};
    struct mount mount;
    char real[PATH_MAX]; /* realpath writes up to PATH_MAX bytes */
    const char *folder = input->data;

    if (!folder)
        return;
    if (!gf_check_is_recorded(input) && realpath(folder, real))
        folder = real;
    if (!find_mount(input, folder, &mount)) {
        gf_unknown(ret, "the file system of %s is unknown", folder);
        return;
    }
    const bool is_layer = is_among(mount.type, layers, GF_ARRAY_LEN(layers));
    const long ahead = read_ahead(input, mount.device);
    if (is_layer || is_among(mount.type, slow, GF_ARRAY_LEN(slow))) {
        gf_problem(ret, "%s is on %s", folder,
                   is_layer ? "the container's own layer" : "network or remote storage");
        gf_evidence(ret, "/proc/self/mountinfo: %s is %s", mount.point, mount.type);
        gf_fix(ret, is_layer ? "put data and checkpoints on a bind mount or volume"
                             : "copy the data to a local disk before the first epoch");
    } else if (ahead >= 0 && ahead < READ_AHEAD_LEAST_KB && strncmp(mount.device, "0:", 2) != 0) {
        gf_problem(ret, "the disk of %s reads only %ld KiB ahead", folder, ahead);
        gf_evidence(ret, "read_ahead_kb of device %s: %ld", mount.device, ahead);
        gf_command(ret, "echo 1024 > /sys/class/bdi/%s/read_ahead_kb", mount.device);
    } else {
        gf_ok(ret, "%s is on %s", folder, mount.type);
    }
}

void gf_check_batch_huge_pages(const struct gf_check_input *input, struct gf_findings *ret)
{
    struct mount mount;

    if (gf_check_thp_is_off(input)) /* gf_check_huge_pages reports it */
        return;
    if (gf_check_is_inference(input) || !find_mount(input, "/dev/shm", &mount) ||
        strcmp(mount.type, "tmpfs") != 0)
        return;
    /* With huge=advise, only memory that asks for huge pages gets them, and PyTorch does not ask. */
    if (gf_ok_if(ret,
                 strstr(mount.options, "huge=always") || strstr(mount.options, "huge=within_size"),
                 "batches in /dev/shm get huge pages"))
        return;
    gf_problem(ret, "batches in /dev/shm get no huge pages");
    gf_evidence(ret, "/proc/self/mountinfo: %s: %s", mount.point, mount.options);
    gf_command(ret, "mount -o remount,huge=within_size /dev/shm");
    gf_fix(ret, "%s    (root, on the host); or gpufeed run --shm=huge, for one program",
           ret->last->script);
}
