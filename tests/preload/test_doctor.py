# SPDX-License-Identifier: Apache-2.0
"""gpufeed doctor finds and explains each setting that makes a GPU wait, and changes nothing."""

import errno
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import pytest

from conftest import COMMAND, SOURCE
from doctorkit import (ALLOWED, CPUFREQ, DEVICE, MEMINFO, MEMLOCK, SWAP, SWAPS, THP, WELL, Machine, findings, inside, make,
                       needs_two, write)
from schemakit import Schema

SICK = {
    "kernel": ({"proc/sys/kernel/osrelease": "5.4.0-150-generic\n"}, "too old", "Linux 5.14"),
    "shared-huge-pages": ({f"{THP}/shmem_enabled": "always within_size advise [never] deny force\n"}, "[never]",
                          f"echo advise > /{THP}/shmem_enabled"),
    "huge-pages": ({f"{THP}/enabled": "always madvise [never]\n"}, "[never]", f"echo madvise > /{THP}/enabled"),
    "huge-pages of a page fault": ({f"{THP}/defrag": "[always] defer defer+madvise madvise never\n"}, "[always]",
                                   f"echo madvise > /{THP}/defrag"),
    "zone-reclaim": ({"proc/sys/vm/zone_reclaim_mode": "1\n"}, "zone_reclaim_mode: 1", "sysctl -w vm.zone_reclaim_mode=0"),
    "numa-balancing": ({"proc/sys/kernel/numa_balancing": "1\n"}, "numa_balancing: 1", "sysctl -w kernel.numa_balancing=0"),
    "numa-balancing beside tiering": ({"proc/sys/kernel/numa_balancing": "3\n"}, "numa_balancing: 3",
                                      "sysctl -w kernel.numa_balancing=2"),
    "governor": ({f"{CPUFREQ}/scaling_governor": "powersave\n"}, "powersave", "cpupower frequency-set -g performance"),
    "governor that prefers balance": ({f"{CPUFREQ}/scaling_governor": "powersave\n",
                                       f"{CPUFREQ}/energy_performance_preference": "balance_performance\n"},
                                      "powersave", "cpupower frequency-set -g performance"),
    "swap": ({"proc/meminfo": MEMINFO.format(free=32 << 20, swap=8 << 20)}, "SwapTotal 8388608 kB", "sysctl -w vm.swappiness=1"),
    "swap on a disk, too": ({**SWAP, "proc/swaps": SWAPS + "/dev/zram0 partition 8388604 0 100\n/dev/sda2 partition 8 0 -2\n"},
                            "SwapTotal 8388608 kB", "sysctl -w vm.swappiness=1"),
    "memory": ({"proc/meminfo": MEMINFO.format(free=512 << 10, swap=0)}, "only 512 MiB", "docker run --memory"),
    "memlock": (MEMLOCK, "8192 KiB", "--ulimit memlock=-1"),
    "memlock in a user namespace": ({**MEMLOCK, "proc/self/status": "CapEff:\t000001ffffffffff\n",
                                     "proc/self/uid_map": "0 1000 1\n"}, "8192 KiB", "--ulimit memlock=-1"),
    "address-space": ({"proc/self/limits": "Max address space         8589934592           unlimited            bytes\n"},
                      "8192 MiB", "ulimit -v unlimited"),
    "threads": ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/pids.max": "max\n", "sys/fs/cgroup/a/b/pids.current": "9\n",
                 "sys/fs/cgroup/a/pids.max": "256\n", "sys/fs/cgroup/a/pids.current": "200\n"}, "only 56 more",
                "--pids-limit -1"),
    "threads, version 1": ({"proc/self/cgroup": "5:pids:/a\n", "sys/fs/cgroup/pids/a/pids.max": "256\n",
                            "sys/fs/cgroup/pids/a/pids.current": "300\n"}, "only 0 more", "--pids-limit -1"),
    "links": ({f"{DEVICE}/current_link_width": "8\n"}, "8 of 16 lanes", "bifurcation"),
    "nodes": ({f"{DEVICE}/numa_node": "-1\n", f"{DEVICE}/local_cpulist": "\n"}, "local_cpulist: empty", "pxb-pcie"),
    "quota": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
               "sys/fs/cgroup/cpu.max": "50000 100000\n"}, "0.5 CPUs", "--cpuset-cpus instead of --cpus"),
}

# Settings of ordinary machines that are not problems.
WELL_TOO = {
    "the CPU chooses and prefers speed": {f"{CPUFREQ}/scaling_governor": "powersave\n",
                                          f"{CPUFREQ}/energy_performance_preference": "performance\n"},
    "slow memory is promoted": {"proc/sys/kernel/numa_balancing": "2\n"},
    "threads enough": {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/pids.max": "4096\n", "sys/fs/cgroup/pids.current": "90\n"},
    "zram": {**SWAP, "proc/sys/vm/swappiness": "180\n", "proc/swaps": SWAPS + "/dev/zram0  partition  8388604  0  100\n"},
    "a group without swap": {**SWAP, "proc/self/cgroup": "0::/pod/one\n", "sys/fs/cgroup/pod/memory.swap.max": "0\n"},
    "locks what it likes": {**MEMLOCK, "proc/self/status": "Name:\tx\nCapEff:\t000001ffffffffff\n",
                            "proc/self/uid_map": "         0          0 4294967295\n"},
    "card of the host only": {**MEMLOCK, "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
                              "dev/infiniband/uverbs0": None},
}


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


@needs_two
def test_a_machine_without_problems(doctor, tmp_path):
    machine = write(tmp_path)
    told = doctor(machine, "--json")
    assert {one["status"] for one in findings(told)} == {"ok"}, told.stdout
    assert told.returncode == 0
    text = doctor(machine)
    assert text.returncode == 0 and text.stdout.splitlines()[-1].endswith(", 0 unknown")
    assert text.stdout.splitlines()[-1].startswith("0 problems, ")


NAMES = re.findall(r'^GF_CHECK\(\w+, "([^"]+)"', (SOURCE / "src/tools/doctor/checks.def").read_text(encoding="utf-8"), re.M)


def test_each_check_is_tested():
    """The machine is found by the check's name in this file. So a new check needs a machine on
    which it finds a problem."""
    own = "".join(file.read_text(encoding="utf-8") for file in pathlib.Path(__file__).parent.glob("test_doctor*.py"))
    assert len(NAMES) >= 19 and [name for name in NAMES if f'"{name}"' not in own] == []


def test_the_json_is_as_its_schema_says(doctor, tmp_path):
    schema = Schema("doctor.json")
    for args in (["--json"], ["--json", write(tmp_path, SICK["kernel"][0])]):
        whole = json.loads(doctor(*args).stdout)
        assert schema.errors(whole) == [] and {one["check"] for one in whole["findings"]} <= set(NAMES)
    assert schema.seen == schema.fields()
    whole["findings"][0]["status"] = "fine"
    assert schema.errors(whole) == [".findings.status: 'fine'"]


@needs_two
@pytest.mark.parametrize("env, places", [({}, []), ({"SLURM_JOB_ID": 7}, ["slurm"]), ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ["k8s"])])
def test_the_text_has_the_fix_for_where_the_doctor_runs(doctor, run, tmp_path, env, places):
    """A recorded machine, so that the container of the test does not count."""
    for name in ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"):
        run.base.pop(name, None)
    machine = write(tmp_path, SICK["swap"][0])
    lines = doctor(machine, **env).stdout.splitlines()
    assert [line.split()[0] for line in lines if re.match(" +(docker|k8s|slurm) ", line)] == places
    assert [line for line in lines if line.startswith("--json ")] == [
        "--json has the fixes for Docker, Kubernetes and Slurm, and --fix prints a script."]


@needs_two
@pytest.mark.parametrize("name", SICK)
def test_each_is_found(doctor, tmp_path, name):
    changed, said, does = SICK[name]
    machine = write(tmp_path, changed)
    told = doctor(machine, "--json")
    ill = [one for one in findings(told) if one["status"] != "ok"]
    also = ["feeding"] if name == "quota" else []  # half a CPU is too little for staging, too
    assert [one["check"] for one in ill] == [re.match("[a-z-]+", name)[0], *also], told.stdout
    assert said in ill[0]["summary"] + (ill[0]["evidence"] or "")
    assert ill[0]["status"] == "problem" and ill[0]["why"] and does in ill[0]["fix"]
    assert told.returncode == 1
    text = doctor(machine).stdout
    assert text.startswith(f"problem  {ill[0]['summary']} [{ill[0]['check']}]\n") and f"fix       {ill[0]['fix']}\n" in text
    assert text.splitlines()[-1].startswith("2 problems, " if also else "1 problem, ")


@needs_two
@pytest.mark.parametrize("name", WELL_TOO)
def test_ordinary_machines_are_well(doctor, tmp_path, name):
    told = doctor(write(tmp_path, WELL_TOO[name]), "--json")
    assert [one for one in findings(told) if one["status"] != "ok"] == [] and told.returncode == 0


@needs_two
def test_many_gpus_leave_space_for_the_host(doctor, tmp_path):
    machine = Machine(2, 1, 8, 1, 64)
    for bus in range(64):
        machine.gpu(f"0000:{bus + 16:02x}:00.0", bus % 2)
    machine.files["proc/self/status"] = "Cpus_allowed_list:\t0-15\n"
    machine.write(tmp_path)
    for bus in range(64):
        for end in ("current", "max"):
            (tmp_path / f"sys/bus/pci/devices/0000:{bus + 16:02x}:00.0/{end}_link_width").write_text("16\n")
    for name, text in {**WELL, **SICK["swap"][0], **SICK["governor"][0]}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    told = findings(doctor(f"--machine={tmp_path}", "--json"))
    assert {"governor", "swap"} <= {one["check"] for one in told if one["status"] == "problem"}
    for name, count in {"links": 1, "nodes": 2, "cpus": 1}.items():  # one problem for each node, not for each GPU
        ours = [one["summary"] for one in told if one["check"] == name]
        assert len(ours) == count, ours
        assert all(one.startswith("GPUs 0000:10:00.0, 0000:1") or name == "nodes" for one in ours), ours
        assert sum(8 + int(re.search(r"and (\d+) more", one)[1]) for one in ours) == 64


GARBAGE = [b"", b"\n\n", b"\x00\xff\xfe\x1b[31m", b"\xff" * 9000, b"-1", b"-9223372036854775809", b"9" * 400, None]


@needs_two
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_files_may_hold_anything(doctor, tmp_path, garbage):
    """If `garbage` is None, the path is a folder. Doctor reports no problem for invalid content."""
    machine = write(tmp_path)
    for name in WELL:
        (tmp_path / name).unlink(missing_ok=True)
        if garbage is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(garbage)
    told = doctor(machine, "--json")
    assert told.returncode in (0, 1) and told.stderr == ""
    assert all(one["summary"] and one["summary"].isprintable() for one in findings(told))
    problems = {one["check"] for one in findings(told) if one["status"] == "problem"}
    if garbage is None or not garbage[:1].isdigit():
        assert problems <= {"governor"}, told.stdout
    assert doctor(machine).returncode == told.returncode


def test_gpus_beside_the_pci_bus(doctor, tmp_path):
    machine = write(tmp_path, {"dev/dxg": ""}, gpu_nodes=())
    told = [one for one in findings(doctor(machine, "--json")) if one["check"] == "gpus"]
    assert [one["status"] for one in told] == ["unknown"] and "/dev/dxg" in told[0]["summary"]


def test_shared_memory_without_a_limit():
    told = inside("mount -t tmpfs -o size=0 none /dev/shm")
    assert (told["shm"]["status"], told["shm"]["summary"]) == ("ok", "/dev/shm is not limited")


def test_a_launcher_that_switches_huge_pages_off():
    script = ("import ctypes, os, sys; assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0;"
              "os.execv(sys.argv[1], [sys.argv[1], 'doctor', '--json'])")
    told = subprocess.run([sys.executable, "-c", script, COMMAND], capture_output=True, text=True, check=False)
    ill = {one["check"]: one for one in findings(told)}
    assert ill["huge-pages"]["status"] == "problem"
    assert "THP_enabled: 0" in ill["huge-pages"]["evidence"] and "PR_SET_THP_DISABLE" in ill["huge-pages"]["fix"]


# Installs a filter that fails one system call with the given errno, like a container's profile. Then executes the
# command.
REFUSE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
steps = struct.pack("=" + 4 * "HBBI", 0x20, 0, 0, 0, 0x15, 0, 1, int(sys.argv[1]),
                    0x06, 0, 0, 0x00050000 | int(sys.argv[2]), 0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(steps)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv(sys.argv[3], sys.argv[3:])
"""
NUMBERS = {"x86_64": (203, 204, 238), "aarch64": (122, 123, 237)}.get(platform.machine())
CALLS = dict(zip(("sched_setaffinity", "sched_getaffinity", "set_mempolicy"), NUMBERS or ()))
needs_numbers = pytest.mark.skipif(NUMBERS is None, reason="the calls' numbers are not known here")


def refusing(call, error):
    return [sys.executable, "-S", "-c", REFUSE, str(CALLS[call]), str(error)]


def mount_nodes(folder, count):
    """A line of shell that divides this machine's CPUs among `count` nodes."""
    ids = ",".join(map(str, range(count)))
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        (folder / name).write_text(ids + "\n")
    for node in range(count):
        own = [cpu for cpu in range(os.sysconf("SC_NPROCESSORS_CONF")) if cpu % count == node]
        mask = f"{sum(1 << cpu for cpu in own):x}"
        mask = mask.zfill(-len(mask) // 8 * -8)
        files = {"cpulist": ",".join(map(str, own)), "cpumap": ",".join(re.findall("." * 8, mask)),
                 "distance": " ".join("10" if other == node else "20" for other in range(count)),
                 "meminfo": "".join(f"Node {node} Mem{what}: {1 << 24} kB\n" for what in ("Total", "Free"))}
        (folder / f"node{node}").mkdir()
        for name, text in files.items():
            (folder / f"node{node}" / name).write_text(text + "\n")
    return f"mount --bind {folder} /sys/devices/system/node"


@needs_two
@needs_numbers
@pytest.mark.parametrize("call", ["sched_setaffinity", "sched_getaffinity"])
@pytest.mark.parametrize("name, does", {"EPERM": "SCMP_ACT_ALLOW", "ENOSYS": "SCMP_ACT_ALLOW", "EACCES": "setsched"}.items())
def test_a_container_that_refuses_binding(tmp_path, call, name, does):
    mount, error = mount_nodes(tmp_path, 2), getattr(errno, name)
    well, ill = inside(mount), inside(mount, refusing(call, error))
    assert (well["affinity"]["status"], well["affinity"]["summary"]) == ("ok", "binding threads to CPUs is permitted")
    assert (ill["affinity"]["status"], ill["affinity"]["evidence"]) == ("problem", f"{call}: {os.strerror(error)}")
    assert "DataLoader" in ill["affinity"]["why"] and does in ill["affinity"]["fix"]
    assert {name for name in well if ill[name]["status"] != well[name]["status"]} == {"affinity"}


@needs_two
@needs_numbers
def test_a_container_that_refuses_memory_policies(tmp_path):
    told = inside(mount_nodes(tmp_path, 2), refusing("set_mempolicy", errno.EPERM))["policy"]
    assert (told["status"], told["evidence"]) == ("problem", f"set_mempolicy: {os.strerror(errno.EPERM)}")
    assert "first" in told["why"] and "SYS_NICE" in told["fix"]


@needs_two
def test_no_policy_is_set(tmp_path):
    """A call that succeeds would set one, even on a thread that ends."""
    calls = tmp_path / "calls"
    trace = ["strace", "-f", "-e", "trace=set_mempolicy,mbind", "-o", str(calls)]
    (tmp_path / "node").mkdir()
    told = inside(mount_nodes(tmp_path / "node", 2), trace)["policy"]
    assert told["summary"] == "memory policies are permitted"
    made = [line for line in calls.read_text().splitlines() if "(" in line]
    assert len(made) == 2 and not any(line.endswith("= 0") for line in made), made


@needs_two
@needs_numbers
def test_an_error_that_is_not_a_refusal(tmp_path):
    told = inside(mount_nodes(tmp_path, 2), refusing("sched_setaffinity", errno.EINVAL))["affinity"]
    assert told["status"] == "unknown" and "sched_setaffinity: Invalid argument" in told["summary"]


@needs_numbers
def test_a_refusal_matters_only_where_something_would_be_bound(tmp_path):
    """On one node, the check passes. For a recorded machine, the check makes no calls."""
    refused = refusing("sched_setaffinity", errno.EPERM)
    (tmp_path / "one").mkdir()
    assert "affinity" not in inside(mount_nodes(tmp_path / "one", 1), refused)
    told = subprocess.run([*refused, COMMAND, "doctor", "--json", write(tmp_path / "recorded")], capture_output=True, text=True,
                          check=False)
    assert told.returncode in (0, 1) and "affinity" not in {one["check"] for one in findings(told)}


def test_an_old_kernel_that_can(tmp_path):
    """Vendors backport calls to old kernels, so the call decides and not the version."""
    if inside("true")["kernel"]["status"] != "ok":
        pytest.skip("this kernel has no MADV_POPULATE_READ")
    (tmp_path / "osrelease").write_text("4.18.0-553.el8.x86_64\n")
    told = inside(f"mount --bind {tmp_path}/osrelease /proc/sys/kernel/osrelease")["kernel"]
    assert told["status"] == "ok" and "4.18.0-553" in told["summary"]


@needs_two
def test_a_mask_without_the_gpus_node(doctor, tmp_path):
    """The mask may be recorded. The mask of this process says nothing about a recorded machine."""
    (tmp_path / "one").mkdir()
    told = {one["check"]: one for one in findings(doctor(write(tmp_path / "one", {
        "proc/self/status": f"Cpus_allowed_list:\t{ALLOWED[-1]}\n"}), "--json"))}
    assert told["cpus"]["status"] == "problem" and f"--cpuset-cpus {ALLOWED[0]} " in told["cpus"]["fix"]
    (tmp_path / "other").mkdir()
    machine, before = write(tmp_path / "other"), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {ALLOWED[-1]})
    try:
        told = findings(doctor(machine, "--json"))
    finally:
        os.sched_setaffinity(0, before)
    assert {one["status"] for one in told} == {"ok"} and "cpus" not in {one["check"] for one in told}


@needs_two
def test_no_gpu(doctor, tmp_path):
    none = findings(doctor(write(tmp_path / "none", gpu_nodes=()), "--json"))
    assert [one["summary"] for one in none if one["status"] == "problem"] == ["there is no NVIDIA GPU here"]
    hidden = findings(doctor(write(tmp_path / "one"), "--json", CUDA_VISIBLE_DEVICES=""))
    assert [one["summary"] for one in hidden if one["status"] == "problem"] == ["none of the machine's GPUs (1) is visible"]


def test_missing_files_are_unknown(doctor, tmp_path):
    machine = write(tmp_path)
    for name in WELL:
        (tmp_path / name).unlink(missing_ok=True)
    told = doctor(machine, "--json")
    unknown = {one["check"] for one in findings(told) if one["status"] == "unknown"}
    assert {"kernel", "shared-huge-pages", "huge-pages", "zone-reclaim", "numa-balancing", "swap", "memory"} == unknown
    assert not any(one["status"] == "problem" for one in findings(told)) and told.returncode == 0


def test_this_machine(doctor):
    told = doctor("--json")
    assert told.returncode in (0, 1), told.stderr
    assert {"gpus", "quota", "shm", "kernel"} <= {one["check"] for one in findings(told)}


def test_a_recorded_machine_is_as_well_as_itself(doctor, run, tmp_path):
    """Settings of the host are recorded; limits of the process are not."""
    host = {"kernel", "shared-huge-pages", "huge-pages", "zone-reclaim", "numa-balancing", "boost", "write-back", "pinning",
            "boot-options", "huge-page-pool", "overcommit", "idle-states", "isolated-cpus", "iommu", "acs", "interrupts", "kubelet"}
    if len(ALLOWED) == os.cpu_count():
        host.add("governor")  # a recording has the settings of all CPUs, a live check only those of the allowed CPUs
    assert run(COMMAND, "topo", "--record", str(tmp_path), preload=False).returncode == 0
    here, there = (findings(doctor("--json", *args)) for args in ([], [f"--machine={tmp_path}"]))
    assert [one for one in there if one["check"] in host] == [one for one in here if one["check"] in host]
    for name in ("proc/swaps", f"{CPUFREQ}/energy_performance_preference"):
        assert (tmp_path / name).exists() == os.path.exists(f"/{name}")


@needs_two
def test_devices_are_recorded(doctor, tmp_path):
    """A GPU, a network card and the bridge of a DGX in place of this machine's devices. Each kind has a problem."""
    dgx, state = make.dgx_h100(), "sys/devices/system/cpu/cpu0/cpuidle/state0"
    gpu, bridge = (f"sys/bus/pci/devices/{bdf}" for bdf in (make.EIGHT[0], "0000:19:00.0"))
    port = bytearray(4096)
    port[6], port[0x34], port[0x40], port[0x42], port[0x100], port[0x106] = 0x10, 0x40, 0x10, 0x62, 0x0d, 0xff
    files = {name: text.encode() + b"\n" for name, text in dgx.files.items() if name.startswith((gpu, "sys/bus/pci/devices/0000:20", "proc/irq"))}
    files |= {f"{gpu}/iommu_group/type": b"DMA-FQ\n", f"{bridge}/class": b"0x060400\n",
              f"{bridge}/config": bytes(port), f"{state}/name": b"C9\n", f"{state}/latency": b"900\n"}
    for name in files:
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        near = name.endswith("local_cpulist")
        (tmp_path / "root" / name).write_bytes(b"0\n" if near else b"1\n" if name.startswith("proc/irq") else files[name])
    (tmp_path / "nodes").mkdir()
    mounts = [mount_nodes(tmp_path / "nodes", 2)]
    mounts += [f"mount --bind {tmp_path}/root/{name} /{name}" for name in ("sys/bus/pci/devices", "proc/irq")]
    if os.path.exists(f"/{state}/latency"):
        mounts += [f"mount --bind {tmp_path}/root/{state} /{state}"]
    env = ["env", "GPUFEED_PROFILE=inference"]
    here = inside(" && ".join([*mounts, f'"{COMMAND}" topo --record {tmp_path}/copy >&2']), env)
    there = {one["check"]: one for one in findings(doctor("--json", f"--machine={tmp_path}/copy", GPUFEED_PROFILE="inference"))}
    for name in ("acs", "interrupts"):
        assert here[name]["status"] == "problem" and there[name] == here[name]
    assert there["iommu"]["status"] == "problem"  # here no driver says that the GPU is visible
    if os.path.exists(f"/{state}/latency"):
        assert there["idle-states"]["summary"] == here["idle-states"]["summary"] == "idle CPUs need up to 900 us to wake up (C9)"
        if os.path.exists("/dev/cpu_dma_latency"):
            mounts += ["mount --bind /dev/zero /dev/cpu_dma_latency"]
            assert inside(" && ".join(mounts), env)["idle-states"]["summary"] == "idle CPUs need at most 0 us to wake up (C9)"


def test_findings_that_cannot_be_written_are_a_failure(tmp_path):
    machine = write(tmp_path, SICK["kernel"][0])
    with open("/dev/full", "w", encoding="ascii") as full:
        assert subprocess.run([COMMAND, "doctor", machine], stdout=full, check=False).returncode == 2


def test_mistakes(doctor, tmp_path):
    assert doctor("--jsno").returncode == 2
    missing = doctor("--machine", str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "No such file or directory" in missing.stderr
