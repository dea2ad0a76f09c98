# SPDX-License-Identifier: Apache-2.0
"""gpufeed doctor has exactly the expected findings on whole recorded machines, in little CPU time. The tests also run
it where it can read little: as the user nobody, in a chroot without /sys, under a container's filter, and in a
pod."""

import os
import resource
import shutil
import subprocess
import sys

import pytest

from conftest import COMMAND, SOURCE
from doctorkit import C6, CLOSED, CPU, DEVICE, MEMLOCK, MOUNTS, OPEN, SWAP, THP, WELL, XID, findings, inside, node_memory, problems

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
import make  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture
def doctor(run):
    def call(*args, **env):
        return run(COMMAND, "doctor", *args, preload=False, **env)
    return call


ALL = "Cpus_allowed_list:\t0-{}\n"


def whole_machine(kind, files=None):
    """A machine of tests/machines, recorded by a process that may use all CPUs, with a host's settings."""
    def build(folder):
        machine = getattr(make, kind)()
        for name, text in {**WELL, "proc/self/status": ALL.format(machine.cpus - 1), **(files or {})}.items():
            if name in (files or {}) or DEVICE not in name and name not in machine.files:
                machine.files[name] = text.rstrip("\n")
        machine.write(folder)
        for name in node_memory(0, 0).keys() & (files or {}).keys():
            (folder / name).write_text(files[name])
    return build


def quota_of(cpus):
    return {"proc/self/status": "Cpus_allowed_list:\t0-15\n", "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu\n", "sys/fs/cgroup/cpu.max": f"{cpus * 100000:.0f} 100000\n"}


INFERENCE = {"GPUFEED_PROFILE": "inference"}
IRQ = "proc/irq/{}/effective_affinity_list"
# How each machine is made, the checks that find a problem (exactly these), and the variables and flags.
HOSTS = {
    **{kind: (whole_machine(kind), set()) for kind in ("dual8", "snc4", "snc4_tiny", "four_nodes", "cxl", "grace_device_node", "single_vm",
                                                       "split16")},
    "dual8 with a 6.8 kernel": (whole_machine("dual8", {"proc/sys/kernel/osrelease": "6.8.0-64\n"}), set()),
    "snc4 with DMA-BUF": (whole_machine("snc4", {"proc/driver/nvidia/version": OPEN.format(580)}), set()),
    "cxl that promotes": (whole_machine("cxl", {"proc/sys/kernel/numa_balancing": "2\n"}), set()),
    "grace with large reserves": (whole_machine("grace_device_node", {"proc/cmdline": "ro iommu.passthrough=1 init_on_alloc=0\n"}), set()),
    "dual8_vm": (whole_machine("dual8_vm"), {"nodes"}),
    "container": (whole_machine("container"), {"quota", "numa-balancing", "feeding", "node-memory"}),
    "a rank bound to the other socket": (whole_machine("split16", {"proc/self/status": "Cpus_allowed_list:\t0-7\n"}), {"cpus"}),
    "a pod with few CPUs near the GPU": (whole_machine("split16", {"proc/self/status": "Cpus_allowed_list:\t0-7,13-15\n"}), {"cpus"}),
    "a pod with enough CPUs near the GPU": (whole_machine("split16", {"proc/self/status": "Cpus_allowed_list:\t0-7,12-15\n"}), set()),
    "a quota of all CPUs": (whole_machine("split16", quota_of(16)), set()),
    "a quota of nearly all CPUs": (whole_machine("split16", quota_of(15.9)), {"quota"}),
    "a pod with one CPU": (whole_machine("single_vm", {"proc/self/status": "Cpus_allowed_list:\t3\n"}), {"feeding"}),
    "a DGX with a closed driver": (whole_machine("dual8", {"proc/driver/nvidia/version": CLOSED.format(550)}), {"peer-memory"}),
    "an Ubuntu with 6.11": (whole_machine("dual8", {"proc/sys/kernel/osrelease": "6.11.0-1016-nvidia\n"}), {"pinning"}),
    "a laptop's defaults": (whole_machine("four_nodes", {f"{THP}/enabled": "always madvise [never]\n", "proc/sys/kernel/numa_balancing": "1\n",
                                                        f"{CPU}/cpufreq/boost": "0\n"}),
                            {"huge-pages", "numa-balancing", "boost"}),
    "a database's host": (whole_machine("snc4", {"proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/zone_reclaim_mode": "1\n"}),
                          {"overcommit", "zone-reclaim"}),
    "a GPU lost": (whole_machine("dual8", {"dev/kmsg": XID.format(79) + XID.format(48)}), {"gpu-errors"}),
    **{kind: (whole_machine(kind), set()) for kind in ("gh200_quad", "gb200", "dgx_h100")},
    "a GH200 with 64 KiB pages": (whole_machine("grace", {"proc/sys/kernel/osrelease": "6.8.0-1015-nvidia-64k\n",
                                                          "proc/cmdline": "ro iommu.passthrough=1 init_on_alloc=0\n"}), set()),
    "a laptop's idle states for training": (whole_machine("dual8", C6), set()),
    "idle states and clocks for inference": (whole_machine("dual8", {**C6, f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n"}),
                                             {"idle-states", "governor"}, INFERENCE),
    "a GB200 that balances nodes": (whole_machine("gb200", {"proc/sys/kernel/numa_balancing": "1\n"}), {"numa-balancing"}),
    "a GB200 rank on the other CPU": (whole_machine("gb200", {"proc/self/status": "Cpus_allowed_list:\t0-71\n"}), {"cpus"}),
    "a host that writes late": (whole_machine("dgx_h100", {"proc/sys/vm/dirty_background_ratio": "60\n",
                                                           "proc/sys/vm/dirty_ratio": "80\n"}), {"write-back"}),
    "a DGX with a small memlock": (whole_machine("dgx_h100", MEMLOCK), {"memlock"}),
    "a DGX whose interrupts are far": (whole_machine("dgx_h100", {IRQ.format(number): "60\n" for number in range(100, 104)}),
                                       {"interrupts"}),
    "a training host without huge pages": (whole_machine("dual8", {
        f"{THP}/enabled": "always madvise [never]\n", f"{THP}/shmem_enabled": "always within_size advise [never] deny force\n"}),
                                           {"huge-pages", "shared-huge-pages"}),
    "the same host for inference": (whole_machine("dual8", {
        f"{THP}/enabled": "always madvise [never]\n", f"{THP}/shmem_enabled": "always within_size advise [never] deny force\n"}),
                                    set(), INFERENCE),
    "a stable kernel 6.12, early": (whole_machine("dgx_h100", {"proc/sys/kernel/osrelease": "6.12.3-cloud\n"}), {"pinning"}),
    "data in the image": (whole_machine("single_vm", {"proc/self/mountinfo": MOUNTS}), {"data"}, {"--data": "/workspace"}),
    "data on NFS": (whole_machine("dual8", {"proc/self/mountinfo": MOUNTS}), {"data"}, {"--data": "/data/nfs/set"}),
    "eight ranks with all threads each": (whole_machine("dual8"), {"thread-counts"}, {
        "OMP_NUM_THREADS": "224", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8", "RANK": "0", "WORLD_SIZE": "8"}),
    "a cloud VM with swap": (whole_machine("single_vm", SWAP), {"swap"}),
    "a host that isolates all CPUs": (whole_machine("dual8", {f"{CPU}/isolated": "0-223\n"}), {"isolated-cpus"}),
    "a Kubernetes node with defaults": (whole_machine("dgx_h100", {"var/lib/kubelet/cpu_manager_state": '{"policyName":"none"}\n'}),
                                        {"kubelet"}),
    "a container with the memory of another node": (whole_machine("split16", {
        "proc/self/status": "Cpus_allowed_list:\t0-15\nMems_allowed_list:\t0\n"}), {"node-memory"}),
    "a page cache beside the GPU": (whole_machine("split16", node_memory(30000, 300)), {"node-memory"}),
    "a DGX with an IOMMU": (whole_machine("dgx_h100", {
        f"sys/bus/pci/devices/{gpu}/iommu_group/type": "DMA-FQ\n" for gpu in make.EIGHT}), {"iommu"}),
    "a login shell's limits": (whole_machine("dual8", {
        "proc/self/limits": "Max open files            1024                 524288               files\n"}), {"open-files"}),
    "a hardened host": (whole_machine("cxl", {"proc/cmdline": "init_on_alloc=1 init_on_free=1\n"}), {"boot-options"}),
}


def test_there_are_enough_hosts():
    assert len(HOSTS) >= 40 and len([host for host in HOSTS.values() if host[1]]) >= 20


@pytest.mark.parametrize("name", HOSTS)
def test_exactly_the_expected_is_found(doctor, tmp_path, name):
    build, expected, *more = HOSTS[name]
    build(tmp_path)
    env = dict(more[0]) if more else {}
    data = ["--data", env.pop("--data")] if "--data" in env else []
    told = doctor(f"--machine={tmp_path}", "--json", *data, **env)
    assert {one["check"] for one in problems(told)} == expected, told.stdout
    assert told.returncode == (1 if expected else 0) and told.stderr == ""


@pytest.mark.parametrize("quota, said", {"50000": "0.5 CPUs: copies", "100000": "1 CPU: copies", "150000": "1.5 CPUs: copies"}.items())
def test_a_quota_below_two_cpus(doctor, tmp_path, quota, said):
    whole_machine("single_vm", {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu\n",
                                "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"})(tmp_path)
    told = {one["check"]: one["summary"] for one in problems(doctor(f"--machine={tmp_path}", "--json", OMP_NUM_THREADS="2"))}
    assert told["feeding"].startswith(said) and set(told) == {"quota", "feeding", "thread-counts"}
    assert told["thread-counts"] == "1 rank with 2 OpenMP threads has 1 CPU"


def test_the_nodes_whose_memory_is_needed_are_named(doctor, tmp_path):
    HOSTS["a container with the memory of another node"][0](tmp_path)
    ill, = problems(doctor(f"--machine={tmp_path}", "--json"))
    assert "no memory of its node" in ill["summary"] and "docker run --cpuset-mems 1 " in ill["fix"]
    assert ill["evidence"] == "/proc/self/status: Mems_allowed_list: 0; the GPU's node: 1"


LISTS = {
    "a pod with few CPUs near the GPU": (
        "cpus", "the GPU's node has CPUs 8-15; this process may use 0-7,13-15; binding all threads needs 4 near the GPU",
        "give the process at least 4 of the CPUs 8-15 (docker run --cpuset-cpus)"),
    "a rank bound to the other socket": (
        "cpus", "the GPU's node has CPUs 8-15; this process may use 0-7", "docker run --cpuset-cpus 8-15 "),
    "a page cache beside the GPU": ("node-memory", "/sys/devices/system/node/node1/meminfo: MemFree", ""),
    "a host that isolates all CPUs": ("isolated-cpus", f"/{CPU}/isolated: 0-223; this process may use 0-223", ""),
    "a DGX whose interrupts are far": ("interrupts", "effective_affinity_list without CPUs 0-55,112-167", "echo 0-55,112-167 > "),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_cpus_and_nodes(doctor, tmp_path, name):
    """A finding has up to two lists, and its command has the first one again."""
    check, evidence, fix = LISTS[name]
    HOSTS[name][0](tmp_path)
    told = [one for one in findings(doctor("--json", GPUFEED_MACHINE=str(tmp_path))) if one["check"] == check and one["status"] == "problem"]
    assert told and evidence in told[0]["evidence"] and fix in told[0]["fix"], told


@pytest.mark.parametrize("name", ["this machine", "a DGX whose interrupts are far", "gh200_quad"])
def test_it_takes_less_than_200_ms(tmp_path, name):
    """The limit is for CPU time, because the machine's load does not change that. NVML and the check that measures
    wake-ups do not run."""
    args = []
    if name in HOSTS:
        HOSTS[name][0](tmp_path)
        args = [f"--machine={tmp_path}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(5):
        assert subprocess.run([COMMAND, "doctor", *args], stdout=subprocess.DEVNULL, check=False).returncode in (0, 1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5 * 0.2


# Executes a command under the default profile of Docker, for a process without capabilities. Podman's file has the
# common part; libseccomp makes the filter.
PROFILE = "/usr/share/containers/seccomp.json"
UNDER_PROFILE = """
import ctypes, json, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]
# Podman permits these, Docker does not.
REFUSED = {"get_mempolicy", "keyctl", "mbind", "mount", "mount_setattr", "move_mount", "open_tree", "pidfd_getfd", "pivot_root",
           "reboot", "set_mempolicy", "setns", "syslog", "umount2", "unshare", "clone3"}
ALLOW, KIND = 0x7fff0000, {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}
profile = json.load(open(sys.argv[1]))
machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
context = ctypes.c_void_p(library.seccomp_init(0x00050001))
library.seccomp_rule_add_array(context, 0x00050026, library.seccomp_syscall_resolve_name(b"clone3"), 0, None)
count = 0
for rule in profile["syscalls"]:
    needs, without = rule.get("includes", {}), rule.get("excludes", {})
    if needs.get("caps") or machine in without.get("arches", []) or machine not in needs.get("arches", [machine]):
        continue
    action = ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else 0x00050000 | rule.get("errnoRet", 1)
    args = [Compare(one["index"], KIND[one["op"].removeprefix("SCMP_CMP_")], one["value"], one.get("valueTwo", 0))
            for one in rule.get("args") or []]
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and name not in REFUSED:
            library.seccomp_rule_add_array(context, action, number, len(args), (Compare * len(args))(*args))
            count += 1
assert count > 250 and library.seccomp_load(context) == 0
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(library.seccomp_syscall_resolve_name(b"set_mempolicy"), 0, 0, 0) == -1 and ctypes.get_errno() == 1
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
    """The root has only the command and the libraries that it needs."""
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
    """A container's profile without capabilities, and a pod's control group with a quota: nothing else
    changes."""
    if not os.path.exists(PROFILE):
        pytest.skip(f"{PROFILE} is missing (package golang-github-containers-common)")
    files = {"cgroup": "0::/kubepods/pod1/c1\n", "group/cpu.max": "50000 100000\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "group" / "cgroup.controllers").write_text("cpu memory pids\n")
    pod = (f"mkdir -p {tmp_path}/top/kubepods/pod1/c1 && cp {tmp_path}/group/* {tmp_path}/top/kubepods/pod1/c1 && "
           f"cp {tmp_path}/group/cgroup.controllers {tmp_path}/top && mount --bind {tmp_path}/top /sys/fs/cgroup && "
           f"mount --bind {tmp_path}/cgroup /proc/$$/cgroup")
    filtered = [sys.executable, "-S", "-c", UNDER_PROFILE, PROFILE]
    told = inside(pod, filtered)
    assert told["quota"]["status"] == "problem" and "0.5 CPUs" in told["quota"]["summary"], told
    plain = inside("true")
    assert {name for name in told if told[name]["status"] != plain.get(name, {}).get("status")} <= {"quota", "feeding", "memory"}
