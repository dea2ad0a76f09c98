# SPDX-License-Identifier: Apache-2.0
"""gpufeed doctor finds what is wrong on recorded hosts, and nothing else."""

import json
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from conftest import COMMAND, on_terminal
from test_doctor import SICK as HOST_SETTINGS
from doctorkit import (ALLOWED, C6, CLOSED, CPU, CPUFREQ, DEVICE, GPU, MOUNTS, OPEN, WELL, XID, deep_sleep, findings, make, needs_two,
                       node_memory, problems, write)

HERE = pathlib.Path(__file__).parent
NIC = "sys/bus/pci/devices/0000:1c:00.0"


def interrupts(device, served):
    return {f"{device}/msi_irqs/{40 + i}": "msix\n" for i in range(2)} | {
        f"proc/irq/{40 + i}/effective_affinity_list": f"{served}\n" for i in range(2)}


def network_card(served):
    return {f"{NIC}/vendor": "0x15b3\n", f"{NIC}/class": "0x020000\n", f"{NIC}/numa_node": "0\n",
            f"{NIC}/local_cpulist": "0\n", **interrupts(NIC, served)}


def switch_port(control, port=6, bdf="0000:19:00.0"):
    """The configuration space of a PCIe port: its PCIe capability at 0x40, access control services (ACS) at 0x140."""
    space = bytearray(4096)
    space[0x06], space[0x34] = 0x10, 0x40
    space[0x40:0x44] = 0x10, 0, port << 4 | 2, 0
    space[0x100:0x104] = 0x01, 0, 0x01, 0x140 >> 4  # another capability; the next one is at 0x140
    space[0x140], space[0x146] = 0x0d, control
    folder = f"sys/bus/pci/devices/{bdf}"
    return {f"{folder}/class": "0x060400\n", f"{folder}/config": space.decode("ascii")}


SHM = "40 21 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=1g{}\n"
BOTH = f"{ALLOWED[0]},{ALLOWED[-1]}\n"
KUBELET = "var/lib/kubelet/cpu_manager_state"
# Each row changes files, variables or flags of a healthy machine, and names the check that must find a problem, with
# words of its finding and of its fix.
SICK = {
    "thread-counts": ({}, {"OMP_NUM_THREADS": "512"}, "512 OpenMP threads", "OMP_NUM_THREADS="),
    "thread-counts by ranks": ({}, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "RANK": "1", "WORLD_SIZE": "8"},
                               "8 ranks with", "OMP_NUM_THREADS=1"),
    "environment": ({}, {"CUDA_LAUNCH_BLOCKING": "1"}, "each kernel launch waits", "unset CUDA_LAUNCH_BLOCKING"),
    "environment of PyTorch 2.9": ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:False"}, "fragmented", "segments:True"),
    "environment of PyTorch": ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, "fragmented", "segments:True"),
    "environment of NCCL": ({}, {"NCCL_P2P_DISABLE": "1"}, "through host memory", "unset NCCL_P2P_DISABLE"),
    "idle-states": (C6, {"GPUFEED_PROFILE": "inference"}, "up to 133 us to wake up (C6)", "cpupower idle-set -D 10"),
    "boost": ({f"{CPU}/cpufreq/boost": "0\n"}, {}, "turbo clock", f"echo 1 > /{CPU}/cpufreq/boost"),
    "boost of intel_pstate": ({f"{CPU}/intel_pstate/no_turbo": "1\n"}, {}, "no_turbo: 1", f"echo 0 > /{CPU}/intel_pstate"),
    "write-back": ({"proc/sys/vm/dirty_background_ratio": "90\n"}, {}, "57.6 GiB of dirty", "vm.dirty_background_bytes=4294967296"),
    "write-back in bytes": ({"proc/sys/vm/dirty_background_bytes": "68719476736\n"}, {}, "64 GiB of dirty", "vm.dirty_bytes"),
    "batch-huge-pages": ({"proc/self/mountinfo": SHM.format("")}, {}, "no huge pages",
                         "remount,huge=within_size /dev/shm    (root, on the host); or gpufeed run --shm=huge"),
    "batch-huge-pages, switched off": ({"proc/self/mountinfo": SHM.format(",huge=never")}, {}, "no huge pages", "within_size"),
    "batch-huge-pages, on request": ({"proc/self/mountinfo": SHM.format(",huge=advise")}, {}, "no huge pages", "within_size"),
    "data": ({"proc/self/mountinfo": MOUNTS}, {"--data": "/work"}, "/ is overlay", "bind mount"),
    "data beside a mount": ({"proc/self/mountinfo": MOUNTS}, {"--data": "/database"}, "/ is overlay", "bind mount"),
    "data on a network": ({"proc/self/mountinfo": MOUNTS}, {"--data": "/data/nfs/x"}, "/data/nfs is nfs4", "local disk"),
    "data read in small pieces": ({"proc/self/mountinfo": MOUNTS, "sys/class/bdi/259:2/read_ahead_kb": "16\n"}, {"--data": "/data/x"},
                                  "16 KiB ahead", "echo 1024 > /sys/class/bdi/259:2"),
    "interrupts": (network_card("1"), {}, "network card 0000:1c:00.0: CPUs of other nodes", "smp_affinity_list"),
    "interrupts of a GPU": (interrupts(DEVICE, "1"), {}, f"GPU {GPU}: CPUs of other nodes", f"{DEVICE}/msi_irqs"),
    "peer-memory": ({"proc/driver/nvidia/version": CLOSED.format(535)}, {}, "cannot access GPU memory", "modprobe nvidia_peermem"),
    "pinning": ({"proc/sys/kernel/osrelease": "6.11.0-21-generic\n"}, {}, "known errors in pinning", "Linux 6.14"),
    "pinning, not yet corrected": ({"proc/sys/kernel/osrelease": "6.12.3\n"}, {}, "known errors in pinning", "Linux 6.14"),
    "boot-options": ({"proc/cmdline": "ro init_on_alloc=1 quiet\n"}, {}, "init_on_alloc=1", "boot loader"),
    "boot-options with a value": ({"proc/cmdline": "ro slub_debug=FZP quiet\n"}, {}, "slub_debug: the kernel checks", "boot loader"),
    "boot-options of newer kernels": ({"proc/cmdline": "ro slab_debug\n"}, {}, "slab_debug: the kernel checks", "boot loader"),
    "huge-page-pool": ({"proc/meminfo": WELL["proc/meminfo"] + "HugePages_Total: 16000\nHugePages_Free: 15000\n"
                        "Hugepagesize: 2048 kB\n"}, {}, "29 GiB are reserved", "vm.nr_hugepages=1000"),
    "overcommit": ({"proc/sys/vm/overcommit_memory": "2\n"}, {}, "overcommit_memory: 2", "vm.overcommit_memory=0"),
    "overcommit of mappings": ({"proc/sys/vm/max_map_count": "1000\n"}, {}, "1000 memory mappings", "max_map_count=262144"),
    "driver": ({"proc/driver/nvidia/version": OPEN.format(535)}, {"CUDA_VERSION": "13.0.1"}, "too old for CUDA 13", "driver 580"),
    "gpu-errors": ({"dev/kmsg": XID.format(79)}, {}, "fallen off the bus", "reboot"),
    "gpu-errors that a reset removes": ({"dev/kmsg": XID.format(95)}, {}, "an uncontained memory error", "nvidia-smi -r -i GPU;"),
    "gpu-errors of a program": ({"dev/kmsg": XID.format(13)}, {}, "a faulty kernel of the program", "compute-sanitizer"),
    "isolated-cpus": ({f"{CPU}/isolated": BOTH}, {}, "may use only isolated CPUs", "isolcpus="),
    "node-memory": (node_memory(512, 30000), {}, "only 512 MiB are free on node 0", "vm.drop_caches=1"),
    "open-files": ({"proc/self/limits": "Max open files            1024                 524288               files\n"}, {},
                   "only 1024 files", "ulimit -n 65535"),
    "iommu": ({f"{DEVICE}/iommu_group/type": "DMA-FQ\n"}, {}, "translates each address", "iommu=pt"),
    "acs": ({**switch_port(0x1d), **switch_port(0x0c, bdf="0000:18:00.0")}, {},
            "0000:18:00.0/config: ACS control 0x0c; 1 more", "0000:18:00.0 0000:19:00.0; do setpci -s"),
    "kubelet": ({KUBELET: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'}, {}, "share all CPUs",
                "cpuManagerPolicy: static, reservedSystemCPUs"),
    "feeding": ({"proc/self/status": "Cpus_allowed_list:\t{first}\n"}, {}, "1 CPU: copies will not be staged", "at least 4 CPUs"),
}

WELL_TOO = {
    "deep sleep during training": (C6, {}),
    "shallow sleep": (deep_sleep(("POLL", 0, 0), ("C1", 2, 0), ("C6", 133, 1)), {"GPUFEED_PROFILE": "inference"}),
    "a request for short latency": ({**C6, "dev/cpu_dma_latency": struct.pack("i", 0).decode()}, {"GPUFEED_PROFILE": "inference"}),
    "no huge pages for inference": ({"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
                                     "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never]\n"},
                                    {"GPUFEED_PROFILE": "inference"}),
    "huge batches": ({"proc/self/mountinfo": SHM.format(",huge=within_size")}, {}),
    "small pages of batches for inference": ({"proc/self/mountinfo": SHM.format("")}, {"GPUFEED_PROFILE": "inference"}),
    "turbo": ({f"{CPU}/cpufreq/boost": "1\n", f"{CPU}/intel_pstate/no_turbo": "0\n"}, {}),
    "enough open files": ({"proc/self/limits": "Max open files            20000                 20000               files\n"}, {}),
    "a local disk": ({"proc/self/mountinfo": MOUNTS, "sys/class/bdi/259:2/read_ahead_kb": "128\n"}, {"--data": "/data"}),
    "a parallel file system": ({"proc/self/mountinfo": MOUNTS}, {"--data": "/scratch/set"}),
    "interrupts near": ({**network_card("0"), **interrupts(DEVICE, "0-1")}, {}),
    "DMA-BUF": ({"proc/driver/nvidia/version": OPEN.format(580)}, {"CUDA_VERSION": "13.0.1"}),
    "a corrected kernel": ({"proc/sys/kernel/osrelease": "6.12.48\n"}, {}),
    "other options": ({"proc/cmdline": "ro init_on_alloc=10 xnuma=off init_on_alloc=0 slub_debug=- slub_debug_x\n"}, {}),
    "huge pages in use": ({"proc/meminfo": WELL["proc/meminfo"] + "HugePages_Total: 16000\nHugePages_Free: 10\n"
                           "Hugepagesize: 2048 kB\n"}, {}),
    "huge pages for pinned memory": ({"proc/meminfo": WELL["proc/meminfo"] + "HugePages_Total: 16000\nHugePages_Free: 15000\n"
                                      "Hugepagesize: 2048 kB\n"}, {"GPUFEED_PIN_PAGES": "huge"}),
    "harmless variables": ({}, {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"}),
    "some CPUs are isolated": ({f"{CPU}/isolated": "{first}\n"}, {}),
    "full nodes": (node_memory(512, 900), {}),
    "a full node without a GPU": (node_memory(30000, 512), {}),
    "switches without redirection": ({**switch_port(0x11), **switch_port(0x1d, port=4, bdf="0000:18:00.0"),
                                      **switch_port(0, bdf="0000:17:00.0")}, {}),
    "a static kubelet": ({KUBELET: '{"policyName":"static","defaultCpuSet":"0-3,60-63","checksum":1}'}, {}),
    "another Xid": ({"dev/kmsg": XID.format(16) + "6,2,3,-;NVRM: loading\n"}, {}),
}


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


def changed(folder, files, env):
    """The arguments and the environment for the machine with these files."""
    first = str(ALLOWED[0])
    args = [write(folder, {name: text.replace("{first}", first) for name, text in files.items()}), "--json"]
    env = dict(env)
    if "--data" in env:
        args += ["--data", env.pop("--data")]
    return args, env


@needs_two
@pytest.mark.parametrize("name", SICK)
def test_each_is_found(doctor, tmp_path, name):
    files, env, said, does = SICK[name]
    args, env = changed(tmp_path, files, env)
    told = doctor(*args, **env)
    ill = problems(told)
    assert [one["check"] for one in ill] == [name.split(" ")[0].rstrip(",")], told.stdout
    assert said in ill[0]["summary"] + (ill[0]["evidence"] or "") and does in ill[0]["fix"], ill
    assert all(ill[0][where] for where in ("why", "page", "docker", "kubernetes", "slurm")) and told.returncode == 1


@needs_two
@pytest.mark.parametrize("name", WELL_TOO)
def test_ordinary_hosts_are_well(doctor, tmp_path, name):
    args, env = changed(tmp_path, *WELL_TOO[name])
    told = doctor(*args, **env)
    assert [one for one in findings(told) if one["status"] != "ok"] == [] and told.returncode == 0


def loop(at):
    """A list of extended capabilities whose entry at 0x100 names the offset `at` as the next one."""
    files = switch_port(0x1d)
    name, = [name for name in files if name.endswith("/config")]
    space = bytearray(files[name].encode("ascii"))
    space[0x102:0x104] = (at << 4 & 0xf0) | 1, at >> 4
    return files | {name: space.decode("latin-1")}


@needs_two
@pytest.mark.parametrize("files", [loop(0x100), loop(0xffc), loop(0x40), {
    "sys/bus/pci/devices/0000:19:00.0/class": "0x060400\n", "sys/bus/pci/devices/0000:19:00.0/config": "\x10" * 300}])
def test_damaged_configuration_spaces(doctor, tmp_path, files):
    told = doctor(write(tmp_path, {name: text for name, text in files.items() if not name.endswith("/config")}), "--json")
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    again = doctor(f"--machine={tmp_path}", "--json")
    assert (again.returncode, again.stdout) == (told.returncode, told.stdout)


@needs_two
def test_the_script_is_printed_and_not_run(doctor, tmp_path):
    name = "proc/sys/vm/overcommit_memory"
    machine = write(tmp_path, {name: "2\n", "proc/sys/kernel/osrelease": "6.11.0\n", **network_card("1")})
    told = doctor(machine, "--fix")
    assert told.returncode == 1 and told.stdout.startswith("#!/bin/sh\n")
    assert "\nsysctl -w vm.overcommit_memory=0 || echo 'not fixed: [overcommit]' >&2\n" in told.stdout and "\n# by hand: use Linux 6.14" in told.stdout
    assert (tmp_path / name).read_text() == "2\n"
    assert subprocess.run(["sh", "-n"], input=told.stdout, text=True, check=False).returncode == 0
    assert not any(line and line.split()[0] not in ("#", "#!/bin/sh", "set", "sysctl", "for") for line in told.stdout.splitlines())


@needs_two
def test_the_script_goes_on_after_a_failure(doctor, tmp_path):
    """The script's only commands are sysctl, which fails, and cpupower."""
    machine = write(tmp_path / "machine", {"proc/sys/vm/overcommit_memory": "2\n", f"{CPUFREQ}/scaling_governor": "powersave\n",
                                           "proc/sys/vm/zone_reclaim_mode": "1\n"})
    (tmp_path / "bin").mkdir()
    for name, text in {"sysctl": "exit 3\n", "cpupower": f'echo "$@" >> {tmp_path}/done\n'}.items():
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n" + text)
        (tmp_path / "bin" / name).chmod(0o755)
    script = doctor(machine, "--fix").stdout
    assert {line.split()[0] for line in script.splitlines() if line} == {"#", "#!/bin/sh", "set", "sysctl", "cpupower"}
    ran = subprocess.run(["/bin/sh"], input=script, env={"PATH": f"{tmp_path}/bin"}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "not fixed: [zone-reclaim]\nnot fixed: [overcommit]\n")
    assert (tmp_path / "done").read_text() == "frequency-set -g performance\n"


@needs_two
def test_the_script_only_describes_what_may_harm_programs(doctor, nvml, tmp_path):
    """Isolation of virtual machines, the page cache, a chosen power limit, and programs that use NVLink."""
    machine = write(tmp_path, {**switch_port(0x1d), **switch_port(0x0c, bdf="0000:18:00.0"), **switch_port(0x11, bdf="0000:17:00.0"),
                               **node_memory(512, 30000)})
    script = doctor(machine, "--fix").stdout + doctor("--fix", **nvml, FAKE_NVML="limit=500000 fabric=1").stdout
    for words in ("for i in 0000:18:00.0 0000:19:00.0; do setpci -s $i ECAP_ACS+6.w=0:c; done    (root", "sysctl -w vm.drop_caches=1    (",
                  "unless it was lowered on purpose: nvidia-smi -pl 700", "when no program uses a GPU: systemctl restart"):
        line, = [line for line in script.splitlines() if words in line]
        assert line.startswith("# by hand: "), line


@needs_two
def test_one_switch_port_is_named(doctor, tmp_path):
    ill, = problems(doctor(write(tmp_path, switch_port(0x1d)), "--json"))
    assert ill["summary"].startswith("1 port of PCIe switches sends transfers") and "for i in 0000:19:00.0; do" in ill["fix"]


@needs_two
def test_many_switch_ports_are_listed(doctor, tmp_path):
    files = {name: text for bus in range(48) for name, text in switch_port(0x1d, bdf=f"0000:{bus + 0x80:02x}:00.0").items()}
    ill, = problems(doctor(write(tmp_path, files), "--json"))
    assert ill["summary"].startswith("48 ports of PCIe switches send transfers") and ill["evidence"].endswith("0000:80:00.0/config: ACS control 0x1d; 47 more ports")
    assert ill["fix"].count("0000:") == 40 and ill["fix"].endswith("removes their isolation)")


@needs_two
def test_each_error_has_its_own_message(doctor, tmp_path):
    log = XID.format(31) + XID.format(64).replace("1b:00", "9b:00") + XID.format(31).replace("1b:00", "43:00")
    ill = problems(doctor(write(tmp_path, {"dev/kmsg": log}), "--json"))
    assert [(one["summary"].partition(":")[0], one["evidence"]) for one in ill] == [
        (f"Xid {xid}", f"/dev/kmsg: first message: NVRM: Xid (PCI:0000:{gpu}): {xid}, pid=1, name=python")
        for xid, gpu in ((31, "1b:00"), (64, "9b:00"))]


@pytest.fixture(scope="session")
def nvml(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", HERE / "nvml.c"], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


GPU_STATES = {
    "persistence": ("persistence=0", "persistence mode is off", "nvidia-smi -pm 1"),
    "gpu-memory": ("errors=3", "uncorrected errors", "nvidia-smi -r"),
    "gpu-memory that waits for a reset": ("pending=1", "at the next reset", "nvidia-smi -r"),
    "gpu-memory that is lost": ("failed=1 pending=1", "remapping a row of memory failed", "replace"),
    "gpu-memory without ECC": ("ecc=0", "ECC is off", "nvidia-smi -e 1"),
    "gpu-clocks": ("reasons=0x40", "because of heat", "airflow"),
    "gpu-clocks by power": ("reasons=0x80", "power supply", "power supplies"),
    "power-limit": ("limit=500000", "below the default", "nvidia-smi -pl 700"),
    "gpu-modes": ("compute=2", "the compute mode prohibits all programs", "nvidia-smi -c 0"),
    "gpu-modes with MIG": ("later=1", "MIG mode will change", "reset"),
    "link-generation": ("generation=3", "does not use its fastest generation", "reseat"),
    "fabric": ("fabric=1", "fabric is not ready", "restart nvidia-fabricmanager"),
    "fabric that starts": ("fabric=2", "fabric is not ready", "wait; "),
}
OF_NVML = {name.split(" ")[0] for name in GPU_STATES}


@pytest.mark.parametrize("name", GPU_STATES)
def test_states_of_gpus(doctor, nvml, name):
    values, said, does = GPU_STATES[name]
    ours = [one for one in findings(doctor("--json", **nvml, FAKE_GPUS="4", FAKE_NVML=values, FAKE_GPU="2"))
            if one["check"] in OF_NVML]
    ill = [one for one in ours if one["status"] == "problem"]
    assert [one["check"] for one in ill] == [name.split(" ")[0]], ours
    assert ill[0]["summary"].startswith("GPU 0000:13:00.0: ") and said in ill[0]["summary"] and does in ill[0]["fix"]
    well = [one["summary"] for one in ours if one["status"] == "ok"]
    assert len(well) == len(OF_NVML) and all("s 0000:11:00.0, 0000:12:00.0, 0000:1" in one for one in well), well


@needs_two
@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_the_script_has_no_mistakes(doctor, nvml, tmp_path):
    """shellcheck reads the scripts of all rows as one script."""
    rows = [(row[0], {}) for row in HOST_SETTINGS.values()] + [row[:2] for row in SICK.values()]
    script = "#!/bin/sh\n"
    for number, (files, env) in enumerate(rows):
        args, env = changed(tmp_path / str(number), files, env)
        script += doctor(*args, "--fix", **env).stdout.partition("\n")[2]
    script += doctor("--fix", **nvml, FAKE_NVML="persistence=0 limit=500000 fabric=2").stdout.partition("\n")[2]
    (tmp_path / "fix.sh").write_text(script)
    for part in ("smp_affinity_list", "setpci", "drop_caches", "idle-set", "read_ahead_kb", "boost", "nr_hugepages", "modprobe",
                 "nvidia-smi -pm", "nvidia-smi -pl", "fabricmanager", "swappiness", "cpupower frequency-set"):
        assert part in script, script
    checked = subprocess.run(["shellcheck", tmp_path / "fix.sh"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_idle_links_and_a_failed_nvml(doctor, nvml):
    idle = findings(doctor("--json", **nvml, FAKE_NVML="generation=1 busy=0 reasons=5 fabric=0"))
    assert not [one for one in idle if one["check"] in OF_NVML and one["status"] == "problem"]
    assert not {"link-generation", "fabric"} & {one["check"] for one in idle}
    assert not [one for one in findings(doctor("--json", **nvml, FAKE_INIT="9")) if one["check"] in OF_NVML]


def test_sentences_are_wrapped_on_a_terminal(doctor, tmp_path):
    """Commands are not, so that they can be copied."""
    machine = write(tmp_path, SICK["open-files"][0])
    plain = doctor(machine).stdout
    lines = on_terminal([COMMAND, "doctor", machine], 60).splitlines()
    commands = [line for line in lines if re.match(" +(fix|docker|k8s|slurm) ", line)]
    assert max(len(line) for line in lines if line not in commands) <= 60 < max(map(len, commands))
    assert " ".join(lines).split() == plain.split()
    why = next(i for i, line in enumerate(lines) if line.startswith("         why       "))
    assert re.match(" {19}[^ ]", lines[why + 1])


def test_gpus_that_may_be_hidden(doctor, tmp_path):
    make.dgx_h100().write(tmp_path)
    assert "ok       up to 8 GPUs are visible [gpus]\n" in doctor(f"--machine={tmp_path}").stdout


def test_nothing_is_ok_for_gpus_that_are_absent(doctor, tmp_path):
    assert "feeding" not in {one["check"] for one in findings(doctor(write(tmp_path, gpu_nodes=()), "--json"))}


def test_mistakes_of_options(doctor):
    assert doctor("--data").returncode == 2
    for path, why in (("/nonexistent", "No such file or directory"), ("/etc/passwd", "Not a directory")):
        result = doctor("--data", path)
        assert (result.returncode, result.stdout, result.stderr) == (2, "", f"gpufeed doctor: --data: cannot read {path}: {why}\n")
    assert doctor("--data", "/tmp").stdout
    assert json.loads(doctor("--fix", "--json").stdout)
