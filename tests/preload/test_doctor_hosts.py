# SPDX-License-Identifier: Apache-2.0
"""gpufeed doctor finds what is wrong on recorded hosts, and nothing else."""

import json
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys

import pytest

from conftest import COMMAND, SOURCE
from doctorkit import DEVICE, GPU, WELL, findings, inside, needs_two, write

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
import make  # noqa: E402  pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).parent
CPU = "sys/devices/system/cpu"
NIC = "sys/bus/pci/devices/0000:1c:00.0"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}.95.05  Release Build\n"
MOUNTS = ("21 1 0:20 / / rw - overlay overlay rw\n30 21 259:2 / /data rw - ext4 /dev/nvme0n1p1 rw\n"
          "31 30 0:44 / /data/nfs rw - nfs4 host:/x rw\n32 21 0:45 / /scratch rw,relatime shared:9 - lustre x rw\n")
XID = "4,1,2,-;NVRM: Xid (PCI:0000:1b:00): {}, pid=1, name=python\n"


def deep_sleep(*states):
    return {f"{CPU}/cpu{cpu}/cpuidle/state{i}/{name}": f"{value}\n" for cpu in range(256) for i, (label, us, off) in
            enumerate(states) for name, value in {"name": label, "latency": us, "disable": off}.items()}


def interrupts(device, served):
    return {f"{device}/msi_irqs/{40 + i}": "msix\n" for i in range(2)} | {
        f"proc/irq/{40 + i}/effective_affinity_list": f"{served}\n" for i in range(2)}


def network_card(served):
    return {f"{NIC}/vendor": "0x15b3\n", f"{NIC}/class": "0x020000\n", f"{NIC}/numa_node": "0\n",
            f"{NIC}/local_cpulist": "0\n", **interrupts(NIC, served)}


C6 = deep_sleep(("POLL", 0, 0), ("C1", 1, 0), ("C6", 133, 0))
# Files, variables and flags that change the machine without problems; the check, and words of its
# finding and of its fix.
SICK = {
    "thread-counts": ({}, {"OMP_NUM_THREADS": "512"}, "512 OpenMP threads share", "OMP_NUM_THREADS="),
    "thread-counts by ranks": ({}, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "RANK": "1", "WORLD_SIZE": "8"},
                               "8 ranks of", "OMP_NUM_THREADS=1"),
    "environment": ({}, {"CUDA_LAUNCH_BLOCKING": "1"}, "each kernel launch waits", "unset CUDA_LAUNCH_BLOCKING"),
    "environment of PyTorch": ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, "fragmented", "segments:True"),
    "environment of NCCL": ({}, {"NCCL_P2P_DISABLE": "1"}, "through host memory", "unset NCCL_P2P_DISABLE"),
    "idle-states": (C6, {"GPUFEED_PROFILE": "inference"}, "up to 133 us to wake up (C6)", "cpupower idle-set -D 10"),
    "boost": ({f"{CPU}/cpufreq/boost": "0\n"}, {}, "turbo clock", f"echo 1 > /{CPU}/cpufreq/boost"),
    "boost of intel_pstate": ({f"{CPU}/intel_pstate/no_turbo": "1\n"}, {}, "no_turbo: 1", f"echo 0 > /{CPU}/intel_pstate"),
    "write-back": ({"proc/sys/vm/dirty_background_ratio": "90\n"}, {}, "57.6 GiB of dirty", "vm.dirty_background_bytes=4294967296"),
    "write-back in bytes": ({"proc/sys/vm/dirty_background_bytes": "68719476736\n"}, {}, "64 GiB of dirty", "vm.dirty_bytes"),
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
    "huge-page-pool": ({"proc/meminfo": WELL["proc/meminfo"] + "HugePages_Total: 16000\nHugePages_Free: 15000\n"
                        "Hugepagesize: 2048 kB\n"}, {}, "29 GiB are reserved", "vm.nr_hugepages=1000"),
    "overcommit": ({"proc/sys/vm/overcommit_memory": "2\n"}, {}, "overcommit_memory: 2", "vm.overcommit_memory=0"),
    "overcommit of mappings": ({"proc/sys/vm/max_map_count": "1000\n"}, {}, "1000 memory mappings", "max_map_count=262144"),
    "driver": ({"proc/driver/nvidia/version": OPEN.format(535)}, {"CUDA_VERSION": "13.0.1"}, "too old for CUDA 13", "driver 580"),
    "gpu-errors": ({"dev/kmsg": XID.format(79)}, {}, "fallen off the bus", "reboot"),
    "feeding": ({"proc/self/status": "Cpus_allowed_list:\t{first}\n"}, {}, "1 CPU: copies will not be staged", "at least 4 CPUs"),
}

WELL_TOO = {
    "deep sleep during training": (C6, {}),
    "shallow sleep": (deep_sleep(("POLL", 0, 0), ("C1", 2, 0), ("C6", 133, 1)), {"GPUFEED_PROFILE": "inference"}),
    "a request for short latency": ({**C6, "dev/cpu_dma_latency": struct.pack("i", 0).decode()}, {"GPUFEED_PROFILE": "inference"}),
    "no huge pages for inference": ({"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
                                     "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never]\n"},
                                    {"GPUFEED_PROFILE": "inference"}),
    "turbo": ({f"{CPU}/cpufreq/boost": "1\n", f"{CPU}/intel_pstate/no_turbo": "0\n"}, {}),
    "a local disk": ({"proc/self/mountinfo": MOUNTS, "sys/class/bdi/259:2/read_ahead_kb": "128\n"}, {"--data": "/data"}),
    "a parallel file system": ({"proc/self/mountinfo": MOUNTS}, {"--data": "/scratch/set"}),
    "interrupts near": ({**network_card("0"), **interrupts(DEVICE, "0-1")}, {}),
    "DMA-BUF": ({"proc/driver/nvidia/version": OPEN.format(580)}, {"CUDA_VERSION": "13.0.1"}),
    "a corrected kernel": ({"proc/sys/kernel/osrelease": "6.12.48\n"}, {}),
    "other options": ({"proc/cmdline": "ro init_on_alloc=10 xnuma=off init_on_alloc=0\n"}, {}),
    "huge pages in use": ({"proc/meminfo": WELL["proc/meminfo"] + "HugePages_Total: 16000\nHugePages_Free: 10\n"
                           "Hugepagesize: 2048 kB\n"}, {}),
    "harmless variables": ({}, {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"}),
    "another Xid": ({"dev/kmsg": XID.format(13) + "6,2,3,-;NVRM: loading\n"}, {}),
}


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


def changed(folder, files, env):
    """The arguments and the environment for the machine with these files."""
    first = make.halves().nodes[0][0].split(",")[0]
    args = [write(folder, {name: text.replace("{first}", first) for name, text in files.items()}), "--json"]
    env = dict(env)
    if "--data" in env:
        args += ["--data", env.pop("--data")]
    return args, env


def problems(told):
    return [one for one in findings(told) if one["status"] == "problem"]


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


ALL = "Cpus_allowed_list:\t0-{}\n"


def whole_machine(kind, files=None):
    """A machine of tests/machines, recorded by a process that may use all CPUs, with a host's settings."""
    def build(folder):
        machine = getattr(make, kind)()
        for name, text in {**WELL, "proc/self/status": ALL.format(machine.cpus - 1), **(files or {})}.items():
            if DEVICE not in name and (name in (files or {}) or name not in machine.files):
                machine.files[name] = text.rstrip("\n")
        machine.write(folder)
    return build


THP = "sys/kernel/mm/transparent_hugepage/enabled"
# How each machine is made, and the checks that find a problem: exactly these.
HOSTS = {
    **{kind: (whole_machine(kind), set()) for kind in ("dual8", "snc4", "snc4_tiny", "four_nodes", "cxl", "grace_device_node", "single_vm",
                                                       "split16")},
    "dual8 with a 6.8 kernel": (whole_machine("dual8", {"proc/sys/kernel/osrelease": "6.8.0-64\n"}), set()),
    "snc4 with DMA-BUF": (whole_machine("snc4", {"proc/driver/nvidia/version": OPEN.format(580)}), set()),
    "cxl that promotes": (whole_machine("cxl", {"proc/sys/kernel/numa_balancing": "2\n"}), set()),
    "grace with large reserves": (whole_machine("grace_device_node", {"proc/cmdline": "ro iommu.passthrough=1 init_on_alloc=0\n"}), set()),
    "dual8_vm": (whole_machine("dual8_vm"), {"nodes"}),
    "container": (whole_machine("container"), {"quota", "numa-balancing", "feeding"}),
    "a rank bound to the other socket": (whole_machine("split16", {"proc/self/status": "Cpus_allowed_list:\t0-7\n"}), {"cpus"}),
    "a pod with one CPU": (whole_machine("single_vm", {"proc/self/status": "Cpus_allowed_list:\t3\n"}), {"feeding"}),
    "a DGX with a closed driver": (whole_machine("dual8", {"proc/driver/nvidia/version": CLOSED.format(550)}), {"peer-memory"}),
    "an Ubuntu with 6.11": (whole_machine("dual8", {"proc/sys/kernel/osrelease": "6.11.0-1016-nvidia\n"}), {"pinning"}),
    "a laptop's defaults": (whole_machine("four_nodes", {THP: "always madvise [never]\n", "proc/sys/kernel/numa_balancing": "1\n",
                                                        f"{CPU}/cpufreq/boost": "0\n"}),
                            {"huge-pages", "numa-balancing", "boost"}),
    "a database's host": (whole_machine("snc4", {"proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/zone_reclaim_mode": "1\n"}),
                          {"overcommit", "zone-reclaim"}),
    "a GPU lost": (whole_machine("dual8", {"dev/kmsg": XID.format(79) + XID.format(48)}), {"gpu-errors"}),
    "a hardened host": (whole_machine("cxl", {"proc/cmdline": "init_on_alloc=1 init_on_free=1\n"}), {"boot-options"}),
}


def test_there_are_enough_hosts():
    assert len(HOSTS) >= 20 and len([1 for _, sick in HOSTS.values() if sick]) >= 8


@pytest.mark.parametrize("name", HOSTS)
def test_exactly_the_expected_is_found(doctor, tmp_path, name):
    build, expected = HOSTS[name]
    build(tmp_path)
    told = doctor(f"--machine={tmp_path}", "--json")
    assert {one["check"] for one in problems(told)} == expected, told.stdout
    assert told.returncode == (1 if expected else 0) and told.stderr == ""


@needs_two
def test_the_script_is_printed_and_not_run(doctor, tmp_path):
    name = "proc/sys/vm/overcommit_memory"
    machine = write(tmp_path, {name: "2\n", "proc/sys/kernel/osrelease": "6.11.0\n", **network_card("1")})
    told = doctor(machine, "--fix")
    assert told.returncode == 1 and told.stdout.startswith("#!/bin/sh\n")
    assert "\nsysctl -w vm.overcommit_memory=0\n" in told.stdout and "\n# by hand: use Linux 6.14" in told.stdout
    assert (tmp_path / name).read_text() == "2\n"
    assert subprocess.run(["sh", "-n"], input=told.stdout, text=True, check=False).returncode == 0
    assert not any(line and line.split()[0] not in ("#", "#!/bin/sh", "set", "sysctl", "for") for line in told.stdout.splitlines())


@pytest.fixture(scope="session")
def nvml(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", HERE / "nvml.c"], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


GPU_STATES = {
    "persistence": ("persistence=0", "persistence mode is off", "nvidia-smi -pm 1"),
    "gpu-memory": ("errors=3", "uncorrected errors", "nvidia-smi -r"),
    "gpu-memory that waits for a reset": ("pending=1", "after the next reset", "nvidia-smi -r"),
    "gpu-memory that is lost": ("failed=1 pending=1", "remapping a row of memory failed", "replace"),
    "gpu-memory without ECC": ("ecc=0", "ECC is off", "nvidia-smi -e 1"),
    "gpu-clocks": ("reasons=0x40", "because of heat", "airflow"),
    "gpu-clocks by power": ("reasons=0x80", "power supply", "power supplies"),
    "power-limit": ("limit=500000", "below the default", "nvidia-smi -pl 700"),
    "gpu-modes": ("compute=2", "no program may use it", "nvidia-smi -c 0"),
    "gpu-modes with MIG": ("later=1", "MIG mode changes", "reset"),
    "link-generation": ("generation=3", "slower than it could be", "reseat"),
    "fabric": ("fabric=2", "fabric is not ready", "nvidia-fabricmanager"),
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


def test_idle_links_and_a_failed_nvml(doctor, nvml):
    idle = findings(doctor("--json", **nvml, FAKE_NVML="generation=1 busy=0 reasons=5 fabric=0"))
    assert not [one for one in idle if one["check"] in OF_NVML and one["status"] == "problem"]
    assert not {"link-generation", "fabric"} & {one["check"] for one in idle}
    assert not [one for one in findings(doctor("--json", **nvml, FAKE_INIT="9")) if one["check"] in OF_NVML]


NUMBERS = {"x86_64": (237, 238, 239, 256, 279), "aarch64": (235, 236, 237, 238, 239)}.get(platform.machine())
# Refuses calls by their numbers with EPERM, and then executes the command.
REFUSE_MANY = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
numbers = [int(word) for word in sys.argv[1].split(",")]
steps = [(0x20, 0, 0, 0), *((0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
         (0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050001)]
buffer = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_as_nobody(doctor, tmp_path):
    if os.geteuid():
        pytest.skip("needs root to become another user")
    build, expected = HOSTS["a hardened host"]
    build(tmp_path / "m")
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.geteuid() and str(folder) not in ("/", "/tmp"):
            folder.chmod(0o755)
    for args in (["--json"], ["--json", f"--machine={tmp_path}/m"]):
        told = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(COMMAND), "doctor", *args],
                              capture_output=True, text=True, check=False)
        if told.returncode in (126, 127):
            pytest.skip("nobody may not execute the command here")
        assert told.returncode in (0, 1) and told.stderr == "", told
    assert {one["check"] for one in problems(told)} == expected


def test_in_a_chroot_without_sys(tmp_path):
    """Only the command and the libraries that it needs."""
    needed = subprocess.run(["ldd", COMMAND], capture_output=True, text=True, check=True).stdout.split()
    for name in [str(COMMAND), *(word for word in needed if word.startswith("/"))]:
        copy = tmp_path / name.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, copy)
    (tmp_path / "proc").mkdir()
    told = subprocess.run(["unshare", "-rm", "sh", "-c", 'mount --rbind /proc "$1/proc" && exec chroot "$1" "$2" doctor --json',
                           "sh", str(tmp_path), str(COMMAND)], capture_output=True, text=True, check=False)
    if "unshare" in told.stderr or "mount" in told.stderr:
        pytest.skip(f"no mount namespace: {told.stderr}")
    assert (told.returncode, told.stderr) == (1, "")
    assert {"gpus"} <= {one["check"] for one in problems(told)}
    assert {"shm", "huge-pages"} <= {one["check"] for one in findings(told) if one["status"] == "unknown"}


def test_under_dockers_profile_in_a_pod(tmp_path):
    """A filter that refuses what Docker's profile refuses without SYS_NICE, and a pod's control group:
    nothing else changes."""
    if not NUMBERS:
        pytest.skip("the calls' numbers are not known here")
    files = {"cgroup": "0::/kubepods/pod1/c1\n", "group/cpu.max": "50000 100000\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "group" / "cgroup.controllers").write_text("cpu memory pids\n")
    pod = (f"mkdir -p {tmp_path}/top/kubepods/pod1/c1 && cp {tmp_path}/group/* {tmp_path}/top/kubepods/pod1/c1 && "
           f"cp {tmp_path}/group/cgroup.controllers {tmp_path}/top && mount --bind {tmp_path}/top /sys/fs/cgroup && "
           f"mount --bind {tmp_path}/cgroup /proc/$$/cgroup")
    filtered = [sys.executable, "-S", "-c", REFUSE_MANY, ",".join(map(str, NUMBERS))]
    told = inside(pod, filtered)
    assert told["quota"]["status"] == "problem" and "0.5 CPUs" in told["quota"]["summary"], told
    plain = inside("true")
    assert {name for name in told if told[name]["status"] != plain.get(name, {}).get("status")} <= {"quota", "feeding", "memory"}


def test_mistakes_of_options(doctor):
    assert doctor("--data").returncode == 2
    assert json.loads(doctor("--fix", "--json").stdout)
