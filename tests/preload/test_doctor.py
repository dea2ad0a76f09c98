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
from schemakit import Schema

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
from make import Machine  # noqa: E402  pylint: disable=wrong-import-position

GPU = "0000:1b:00.0"
THP = "sys/kernel/mm/transparent_hugepage"
DEVICE = f"sys/bus/pci/devices/{GPU}"
CPUFREQ = "sys/devices/system/cpu/cpu0/cpufreq"
MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: {free} kB\nSwapTotal: {swap} kB\n"
SWAP = {"proc/meminfo": MEMINFO.format(free=32 << 20, swap=8 << 20)}
SWAPS = "Filename  Type  Size  Used  Priority\n"
MEMLOCK = {"proc/self/limits": "Max locked memory         8388608              8388608              bytes\n"}
ALLOWED = sorted(os.sched_getaffinity(0))
needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")

WELL = {
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    f"{THP}/shmem_enabled": "always within_size [advise] never deny force\n",
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
    "proc/sys/vm/zone_reclaim_mode": "0\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    f"{CPUFREQ}/scaling_governor": "performance\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/meminfo": MEMINFO.format(free=32 << 20, swap=0),
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         unlimited   unlimited   bytes\n",
    "dev/infiniband/uverbs0": "",
    f"{DEVICE}/current_link_width": "16\n",
    f"{DEVICE}/max_link_width": "16\n",
}

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


def write(folder, changed=None, gpu_nodes=(0,)):
    machine = Machine(2, 1, 1, 1, 64)
    machine.files["topology.txt"] = f"Package:2 [NUMANode(memory=64GB)] Core:1 PU:1(indexes={ALLOWED[0]},{ALLOWED[-1]})"
    for node in (0, 1):
        machine.nodes[node] = (str(ALLOWED[-node]), 64)
    for node in gpu_nodes:
        machine.gpu(GPU, node)
    machine.write(folder)
    for name, text in {**WELL, **(changed or {})}.items():
        file = folder / name
        if DEVICE in name and not gpu_nodes:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            file.write_text(text)
    return f"--machine={folder}"


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


def findings(result):
    return json.loads(result.stdout)["findings"]


@needs_two
def test_a_machine_without_problems(doctor, tmp_path):
    machine = write(tmp_path)
    told = doctor(machine, "--json")
    assert {one["status"] for one in findings(told)} == {"ok"}, told.stdout
    assert told.returncode == 0
    text = doctor(machine)
    assert text.returncode == 0 and text.stdout.splitlines()[-1].endswith(", 0 unknown")
    assert text.stdout.splitlines()[-1].startswith("0 problems, ")


NAMES = re.findall(r'^GF_CHECK\(\w+, "([^"]+)"', (SOURCE / "src/cli/doctor/checks.def").read_text(encoding="utf-8"), re.M)


def test_each_check_is_tested():
    """The machine is found by the check's name in this file. So a new check needs a machine on
    which it finds a problem."""
    own = pathlib.Path(__file__).read_text(encoding="utf-8")
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
@pytest.mark.parametrize("name", SICK)
def test_each_is_found(doctor, tmp_path, name):
    changed, said, does = SICK[name]
    machine = write(tmp_path, changed)
    told = doctor(machine, "--json")
    ill = [one for one in findings(told) if one["status"] != "ok"]
    assert [one["check"] for one in ill] == [re.match("[a-z-]+", name)[0]], told.stdout
    assert said in ill[0]["summary"] + (ill[0]["evidence"] or "")
    assert ill[0]["status"] == "problem" and ill[0]["why"] and does in ill[0]["fix"]
    assert told.returncode == 3
    text = doctor(machine).stdout
    assert text.startswith(f"problem  {ill[0]['summary']} [{ill[0]['check']}]\n") and f"fix       {ill[0]['fix']}\n" in text
    assert text.splitlines()[-1].startswith("1 problem, ")


@needs_two
@pytest.mark.parametrize("name", WELL_TOO)
def test_ordinary_machines_are_well(doctor, tmp_path, name):
    told = doctor(write(tmp_path, WELL_TOO[name]), "--json")
    assert [one for one in findings(told) if one["status"] != "ok"] == [] and told.returncode == 0


@needs_two
def test_many_gpus_leave_space_for_the_host(doctor, tmp_path):
    machine = Machine(2, 1, 1, 1, 64)
    for bus in range(64):
        machine.gpu(f"0000:{bus + 16:02x}:00.0", bus % 2)
    machine.write(tmp_path)
    for bus in range(64):
        for end in ("current", "max"):
            (tmp_path / f"sys/bus/pci/devices/0000:{bus + 16:02x}:00.0/{end}_link_width").write_text("16\n")
    for name, text in {**WELL, **SICK["swap"][0], **SICK["governor"][0]}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    told = findings(doctor(f"--machine={tmp_path}", "--json"))
    assert {"governor", "swap"} <= {one["check"] for one in told if one["status"] == "problem"}
    for name in ("links", "nodes", "cpus"):
        assert len([one for one in told if one["check"] == name]) == 64, name


GARBAGE = [b"", b"\n\n", b"\x00\xff\xfe\x1b[31m", b"\xff" * 9000, b"-1", b"-9223372036854775809", b"9" * 400, None]


@needs_two
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_files_may_hold_anything(doctor, tmp_path, garbage):
    """None: the path is a folder. Invalid content is not a problem to fix."""
    machine = write(tmp_path)
    for name in WELL:
        (tmp_path / name).unlink(missing_ok=True)
        if garbage is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(garbage)
    told = doctor(machine, "--json")
    assert told.returncode in (0, 3) and told.stderr == ""
    assert all(one["summary"] and one["summary"].isprintable() for one in findings(told))
    problems = {one["check"] for one in findings(told) if one["status"] == "problem"}
    if garbage is None or not garbage[:1].isdigit():
        assert problems <= {"governor"}, told.stdout
    assert doctor(machine).returncode == told.returncode


def test_gpus_beside_the_pci_bus(doctor, tmp_path):
    machine = write(tmp_path, {"dev/dxg": ""}, gpu_nodes=())
    told = [one for one in findings(doctor(machine, "--json")) if one["check"] == "gpus"]
    assert [one["status"] for one in told] == ["unknown"] and "/dev/dxg" in told[0]["summary"]


def inside(before, under=()):
    """The command's findings in a new mount namespace, after a line of shell. `under` starts the
    command."""
    told = subprocess.run(["unshare", "-rm", "sh", "-c", before + ' && exec "$@" doctor --json', "sh", *under, COMMAND],
                          capture_output=True, text=True, check=False)
    if not told.stdout:
        pytest.skip(f"no mount namespace: {told.stderr}")
    return {one["check"]: one for one in findings(told)}


def test_shared_memory_without_a_limit():
    told = inside("mount -t tmpfs -o size=0 none /dev/shm")
    assert (told["shm"]["status"], told["shm"]["summary"]) == ("ok", "/dev/shm is not limited")


def test_a_launcher_that_switches_huge_pages_off():
    script = ("import ctypes, os, sys; assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0;"
              "os.execv(sys.argv[1], [sys.argv[1], 'doctor', '--json'])")
    told = subprocess.run([sys.executable, "-c", script, COMMAND], capture_output=True, text=True, check=False)
    ill = {one["check"]: one for one in findings(told) if "huge" in one["check"]}
    assert list(ill) == ["huge-pages"] and ill["huge-pages"]["status"] == "problem"
    assert "THP_enabled: 0" in ill["huge-pages"]["evidence"] and "PR_SET_THP_DISABLE" in ill["huge-pages"]["fix"]


# Refuses one call by its number with an errno, like a container's profile, and then executes the
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
    assert told.returncode in (0, 3) and "affinity" not in {one["check"] for one in findings(told)}


def cpufreq(policies):
    """Files of policies: the CPUs, governor and preference of each. All CPUs except the first have
    an unknown governor, which must not be read."""
    files = {}
    for cpus, governor, preference in policies:
        for cpu in cpus:
            folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            files[f"{folder}/affected_cpus"] = " ".join(map(str, cpus)) + " \n"
            files[f"{folder}/scaling_governor"] = f"{governor if cpu == cpus[0] else 'unknown'}\n"
            if preference:
                files[f"{folder}/energy_performance_preference"] = f"{preference}\n"
    return files


def each(cpus, governor, preference=None):
    return [([cpu], governor, preference) for cpu in cpus]


# Of eight CPUs, the first four are on the GPU's node. Columns: policies, the GPU's node, and the
# finding.
LOW = "lower their clock when they idle"
CLOCKS = {
    "all of the node": (each(range(4), "powersave") + each(range(4, 8), "performance"), 0,
                        f"4 of 4 CPUs near a GPU {LOW} (governor powersave): 0-3"),
    "the other node": (each(range(4), "performance") + each(range(4, 8), "powersave"), 0,
                       "CPUs keep their clock high (governor performance)"),
    "an unknown node": (each(range(4), "performance") + each([4, 5, 7], "powersave") + each([6], "performance"), -1,
                        f"3 of 8 CPUs {LOW} (governor powersave): 4-5,7"),
    "one CPU": (each([0, 1, 3], "performance") + each([2], "ondemand"), 0,
                "1 of 4 CPUs near a GPU lowers its clock when it idles (governor ondemand): 2"),
    "mixed": (each([0], "performance") + each([1], "schedutil") + each([2], "powersave", "balance_performance") +
              each([3], "powersave", "performance"), 0,
              f"2 of 4 CPUs near a GPU {LOW} (governor schedutil; powersave, preference balance_performance): 1-2"),
    "mixed and well": (each([0, 1], "performance") + each([2], "powersave", "performance") + each([3], "powersave", "0"), 0,
                       "CPUs keep their clock high (governor performance; powersave, preference performance; "
                       "powersave, preference 0)"),
    "more settings than are told apart": (
        [([cpu], "powersave", prefers) for cpu, prefers in enumerate(("performance", "0", "64", "128"))] +
        each(range(4, 8), "conservative"), 1, f"4 of 4 CPUs near a GPU {LOW} (governor conservative): 4-7"),
    "a shared policy": ([([0, 1, 2, 3], "schedutil", None)] + each(range(4, 8), "performance"), 0,
                        f"4 of 4 CPUs near a GPU {LOW} (governor schedutil): 0-3"),
    "a policy across nodes": ([([2, 3, 4, 5], "schedutil", None)] + each([0, 1, 6, 7], "performance"), 1,
                              f"2 of 4 CPUs near a GPU {LOW} (governor schedutil): 4-5"),
    "CPUs without a governor": (each([1, 2], "schedutil"), 0, f"2 of 2 CPUs near a GPU {LOW} (governor schedutil): 1-2"),
}


def write_clocks(folder, policies, gpu_node, count=8):
    machine = Machine(2, 1, count // 2, 1, 64)
    machine.gpu(GPU, gpu_node)
    machine.write(folder)
    for name, text in cpufreq(policies).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return f"--machine={folder}"


def governor(told):
    found = [one for one in findings(told) if one["check"] == "governor"]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.mark.parametrize("name", CLOCKS)
def test_clocks_of_the_cpus_near_a_gpu(doctor, tmp_path, name):
    policies, node, what = CLOCKS[name]
    told = governor(doctor(write_clocks(tmp_path, policies, node), "--json"))
    assert told["summary"] == what
    assert told["status"] == ("ok" if "keep" in what else "problem")


def test_the_files_of_each_low_setting_are_named(doctor, tmp_path):
    policies, node, _ = CLOCKS["mixed"]
    told = governor(doctor(write_clocks(tmp_path, policies, node), "--json"))
    assert told["evidence"] == ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: schedutil; /sys/devices/system/cpu/cpu2/"
                            "cpufreq/scaling_governor: powersave, energy_performance_preference: balance_performance")


def test_of_many_cpus_the_first_are_named(doctor, tmp_path):
    low = range(4, 512, 2)
    policies = each(low, "schedutil") + each(set(range(512)) - set(low), "performance")
    told = governor(doctor(write_clocks(tmp_path, policies, 0, 512), "--json"))
    assert told["summary"] == f"126 of 256 CPUs near a GPU {LOW} (governor schedutil): 4,6,8,10,12,14,16,18,20,22,..."


def test_an_early_recording_has_the_first_cpu_alone(doctor, tmp_path):
    """The file stands for all CPUs, wherever the GPU is, and has no count."""
    machine = write_clocks(tmp_path, each([0], "schedutil"), 1)
    (tmp_path / CPUFREQ / "affected_cpus").unlink()
    told = governor(doctor(machine, "--json"))
    assert told["summary"] == f"CPUs {LOW} (governor schedutil)"
    assert told["evidence"] == f"/{CPUFREQ}/scaling_governor: schedutil"


def mount_clocks(folder, policies):
    """A line of shell that gives this machine's CPUs those policies."""
    system = pathlib.Path("/sys/devices/system/cpu")
    files = {f"sys/devices/system/cpu/{name}": (system / name).read_text() for name in ("online", "possible", "present")}
    for file in system.glob("cpu[0-9]*/topology/*"):
        files[str(file)[1:]] = file.read_text()
    for name, text in {**files, **cpufreq(policies)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return f"mount --bind {folder}/sys/devices/system/cpu {system}"


@needs_two
def test_clocks_of_the_cpus_that_may_be_used(tmp_path):
    first, last = ALLOWED[0], ALLOWED[-1]
    mount = mount_clocks(tmp_path, each([first], "performance") + each([last], "powersave"))
    assert inside(mount, ["taskset", "-c", str(first)])["governor"]["status"] == "ok"
    told = inside(mount, ["taskset", "-c", str(last)])["governor"]
    assert told["summary"] == f"1 of 1 CPUs lowers its clock when it idles (governor powersave): {last}"
    assert inside(mount)["governor"]["summary"].startswith("1 of 2 CPUs lowers ")


@needs_two
def test_clocks_are_recorded_by_policy(doctor, tmp_path):
    first, last = ALLOWED[0], ALLOWED[-1]
    mount = mount_clocks(tmp_path, [([first, last], "powersave", "balance_power")])
    here = inside(f'{mount} && "$3" topo --record {tmp_path}/copy >&2', ["env", "--"])["governor"]
    assert here["summary"].startswith(f"2 of 2 CPUs {LOW} (governor powersave, preference balance_power): {first}")
    copied = tmp_path / "copy" / "sys/devices/system/cpu"
    assert (copied / f"cpu{first}" / "cpufreq").is_dir() and not (copied / f"cpu{last}" / "cpufreq").exists()
    assert governor(doctor(f"--machine={tmp_path}/copy", "--json")) == here


def test_an_old_kernel_that_can(tmp_path):
    """Vendors backport calls to old kernels, so the call decides and not the version."""
    if inside("true")["kernel"]["status"] != "ok":
        pytest.skip("this kernel has no MADV_POPULATE_READ")
    (tmp_path / "osrelease").write_text("4.18.0-553.el8.x86_64\n")
    told = inside(f"mount --bind {tmp_path}/osrelease /proc/sys/kernel/osrelease")["kernel"]
    assert told["status"] == "ok" and "4.18.0-553" in told["summary"]


@needs_two
def test_a_mask_without_the_gpus_node(doctor, tmp_path):
    machine = write(tmp_path)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {ALLOWED[-1]})
    try:
        told = findings(doctor(machine, "--json"))
    finally:
        os.sched_setaffinity(0, before)
    ill = [one for one in told if one["status"] == "problem"]
    assert [one["check"] for one in ill] == ["cpus"]
    assert f"--cpuset-cpus {ALLOWED[0]} " in ill[0]["fix"]


@needs_two
def test_no_gpu(doctor, tmp_path):
    none = findings(doctor(write(tmp_path / "none", gpu_nodes=()), "--json"))
    assert [one["summary"] for one in none if one["status"] == "problem"] == ["there is no NVIDIA GPU here"]
    hidden = findings(doctor(write(tmp_path / "one"), "--json", CUDA_VISIBLE_DEVICES=""))
    assert [one["summary"] for one in hidden if one["status"] == "problem"] == ["none of the GPUs here (1) is visible"]


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
    assert told.returncode in (0, 3), told.stderr
    assert {"gpus", "quota", "shm", "kernel"} <= {one["check"] for one in findings(told)}


def test_a_recorded_machine_is_as_well_as_itself(doctor, run, tmp_path):
    """Settings of the host are recorded; limits of the process are not."""
    host = {"kernel", "shared-huge-pages", "huge-pages", "zone-reclaim", "numa-balancing"}
    if len(ALLOWED) == os.cpu_count():
        host.add("governor")  # there the settings of all CPUs, here those of the allowed CPUs
    assert run(COMMAND, "topo", "--record", str(tmp_path), preload=False).returncode == 0
    here, there = (findings(doctor("--json", *args)) for args in ([], [f"--machine={tmp_path}"]))
    assert [one for one in there if one["check"] in host] == [one for one in here if one["check"] in host]
    for name in ("proc/swaps", f"{CPUFREQ}/energy_performance_preference"):
        assert (tmp_path / name).exists() == os.path.exists(f"/{name}")


def test_findings_that_cannot_be_written_are_a_failure(tmp_path):
    machine = write(tmp_path, SICK["kernel"][0])
    with open("/dev/full", "w", encoding="ascii") as full:
        assert subprocess.run([COMMAND, "doctor", machine], stdout=full, check=False).returncode == 1


def test_mistakes(doctor, tmp_path):
    assert doctor("--jsno").returncode == 2
    missing = doctor("--machine", str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "No such file or directory" in missing.stderr
