# SPDX-License-Identifier: Apache-2.0
"""A recorded machine may come from anyone. No text of its files, and no name of its folders, runs in the script of
`gpufeed doctor --fix` or reaches a terminal raw."""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, COMMAND, START_COPIES, SYSCALL_KIT, needs_root

# The folder in which a script runs gets a file of this name if a planted command ran.
PWNED = "PWNED"
TEXTS = {"substitution": "$(touch${IFS}PWNED)", "command": ";touch${IFS}PWNED;:", "line": "\ntouch PWNED\n#", "quote": "'\";touch PWNED;'",
         "terminal": "\x1b[31m\x9b31m\u202e\x7f", "bytes": "\udcff\udc9b31m"}
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffd]")
# By a filter, the kernel stops the command only at the calls that follow, instead of at each call.
STRACE = "/usr/bin/strace", "-f", "--seccomp-bpf", "-qq", "-e"
FORMS = [["doctor"], ["doctor", "--fix"], ["doctor", "--json"], ["doctor", "--fix", "--data", "/data"], ["topo"], ["topo", "--json"]]


def device(root, name, far=True):
    """A network card whose interrupts CPUs of another node serve, which is a problem that --fix mends."""
    folder = root / "sys/bus/pci/devices" / name
    node = root / "sys/devices/system/node"
    (folder / "msi_irqs").mkdir(parents=True)
    (folder / "msi_irqs" / "77").touch()
    for file, text in {"class": "0x020000", "vendor": "0x15b3", "numa_node": "0"}.items():
        (folder / file).write_text(text)
    shutil.copy(node / "node0/cpulist", folder / "local_cpulist")
    (root / "proc/irq/77").mkdir(parents=True, exist_ok=True)
    shutil.copy(node / f"node{1 if far else 0}/cpulist", root / "proc/irq/77/effective_affinity_list")


@pytest.fixture
def machine(tmp_path):
    """A recorded machine with two nodes and every kind of file that a recording may hold."""
    root = tmp_path / "machine"
    shutil.copytree(BUILD / "tests" / "machines" / "dual8", root)
    device(root, "0000:00:01.0")
    for path, text in {
            "proc/self/mountinfo": "36 35 8:1 / /data rw - ext4 /dev/sda rw\n", "sys/class/bdi/8:1/read_ahead_kb": "4\n",
            "proc/sys/kernel/osrelease": "5.10.0\n", "proc/cmdline": "isolcpus=1 iommu=on\n", "proc/swaps": "x\n/dev/sda partition 1 0 -2\n",
            "proc/meminfo": "MemTotal: 1000000000 kB\nSwapTotal: 4 kB\nHugePages_Total: 5\nHugePages_Free: 5\nHugepagesize: 1048576 kB\n",
            "proc/sys/vm/swappiness": "60\n", "proc/sys/vm/zone_reclaim_mode": "1\n", "proc/sys/kernel/numa_balancing": "1\n",
            "proc/sys/vm/dirty_background_ratio": "50\n", "proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/max_map_count": "4\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n", "sys/kernel/mm/transparent_hugepage/defrag": "[always]\n",
            "sys/kernel/mm/transparent_hugepage/shmem_enabled": "never\n", "sys/devices/system/cpu/isolated": "1\n",
            "sys/devices/system/cpu/cpufreq/boost": "0\n", "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference": "power\n",
            "sys/devices/system/cpu/cpu0/cpufreq/affected_cpus": "0 1\n", "sys/devices/system/cpu/cpu0/cpuidle/state0/name": "C6\n",
            "sys/devices/system/cpu/cpu0/cpuidle/state0/latency": "900\n", "sys/devices/system/cpu/cpu0/cpuidle/state0/disable": "0\n",
            "var/lib/kubelet/cpu_manager_state": '{"policyName":"none"}', "proc/driver/nvidia/version": "NVRM version: x 470.1\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for gpu in (root / "sys/bus/pci/devices").iterdir():
        if (gpu / "device").exists():
            (gpu / "iommu_group").mkdir(exist_ok=True)
            (gpu / "iommu_group/type").write_text("DMA\n")
            folder = root / "proc/driver/nvidia/gpus" / gpu.name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "information").write_text("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-1\nDevice Minor: \t 0\n")
    return root


def check(run, machine, ran_in):
    """Runs each form, and the script as a user who may not change the host."""
    for form in FORMS:
        done = subprocess.run([COMMAND, *form, "--machine", machine], env=run.env(preload=False, PYTHONUTF8=1), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
        out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
        # A recording that is not sound is refused in one line.
        assert done.returncode in (0, 1, 2) and (done.returncode < 2 or not out or "json" in str(form)), (form, done)
        assert not RAW.search(out), (form, RAW.search(out), out)
        if "--json" in form and out:
            for finding in json.loads(out).get("findings", ()):
                assert not any(text and "touch" in text for text in (finding["script"], finding["fix"])), finding
        if "--fix" in form:
            user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
            subprocess.run(["/bin/sh", "-s"], input=out.encode(errors="surrogateescape"), cwd=ran_in, capture_output=True, timeout=60,
                           check=False, **user)
            assert not (ran_in / PWNED).exists(), out
    assert len(err.splitlines()) <= 1


@pytest.fixture
def ran_in(shared):
    return shared


@pytest.mark.parametrize("kind", TEXTS)
def test_names_of_devices(run, machine, ran_in, kind):
    text = TEXTS[kind].replace("/", "")
    device(machine, "0000:01:00.0" + text)
    device(machine, "0000:0" + text)
    gpus = machine / "proc/driver/nvidia/gpus"
    shutil.copytree(next(gpus.iterdir()), gpus / ("0000:09:00.0" + text)[:200])
    bridge = machine / "sys/bus/pci/devices" / ("0000:02:00.0" + text)
    bridge.mkdir()
    (bridge / "class").write_text("0x060400")
    config = bytearray(4096)
    config[6], config[0x34] = 0x10, 0x40
    config[0x40], config[0x42] = 0x10, 0x60
    config[0x100], config[0x106] = 0x0d, 0x0c
    (bridge / "config").write_bytes(bytes(config))
    check(run, machine, ran_in)


@pytest.mark.parametrize("kind", TEXTS)
def test_device_of_a_mount(run, machine, ran_in, kind):
    text = TEXTS[kind].replace("\n", "")
    name = os.fsencode(f"8:1{text}".replace(" ", "\t"))
    folder = os.fsencode(machine) + b"/sys/class/bdi/" + name.replace(b"/", b"")
    os.makedirs(folder)
    with open(folder + b"/read_ahead_kb", "wb") as file:
        file.write(b"4\n")
    (machine / "proc/self/mountinfo").write_bytes(b"36 35 " + name + b" / /data rw - ext4 /dev/sda rw\n")
    check(run, machine, ran_in)


@pytest.mark.parametrize("where", ["instead", "before", "after"])
@pytest.mark.parametrize("kind", TEXTS)
def test_text_in_each_file(run, machine, ran_in, kind, where):
    text = os.fsencode(TEXTS[kind])
    for path in sorted(machine.rglob("*")):
        if not path.is_file():
            continue
        old = path.read_bytes()
        path.write_bytes(text + b"\n" if where == "instead" else text + old if where == "before" else old.rstrip(b"\n") + text + b"\n")
        if path.name in ("topology.txt", "online", "has_cpu", "cpulist", "has_memory"):
            check(run, machine, ran_in)  # such a recording may be refused as a whole
            path.write_bytes(old)
    check(run, machine, ran_in)


def test_the_script_still_mends(run, machine):
    done = run(COMMAND, "doctor", "--machine", machine, "--fix", "--data", "/data", preload=False)
    assert "/sys/bus/pci/devices/0000:00:01.0/msi_irqs/*" in done.stdout and "echo 1024 > /sys/class/bdi/8:1/read_ahead_kb" in done.stdout


OF_GPU = "proc/driver/nvidia/gpus/0000:1b:00.0/information"


@pytest.mark.parametrize("name", ["proc/meminfo", "topology.txt", "sys/devices/system/cpu/online", "proc/self/mountinfo", OF_GPU])
def test_pipe_in_a_recording(run, machine, name):
    """The command must not wait for a writer."""
    (machine / name).unlink()
    os.mkfifo(machine / name)
    for form in FORMS:
        run(COMMAND, *form, "--machine", machine, preload=False, timeout=20)


@pytest.mark.parametrize("kind", ["hole", "zero", "device"])
@pytest.mark.parametrize("name", ["proc/meminfo", "topology.xml", "sys/devices/system/cpu/online", "proc/self/mountinfo", "dev/kmsg", "sys/fs/cgroup/memory.events"])
def test_a_file_without_end_in_a_recording(run, machine, name, kind):
    """A sparse file of terabytes takes no space. A link to a device would open the device of this host."""
    (machine / name).unlink(missing_ok=True)
    (machine / name).parent.mkdir(parents=True, exist_ok=True)
    (machine / "proc/self/cgroup").write_text("0::/\n")
    if kind == "hole":
        with open(machine / name, "w") as file:
            file.truncate(5 << 40)
    else:
        (machine / name).symlink_to("/dev/zero" if kind == "zero" else "/dev/ptmx")
    for form in ["doctor", "--data", "/data"], ["topo"]:
        trace = machine.parent / "trace"
        run(*STRACE, "openat,openat2", "-P", "/dev/zero", "-P", "/dev/ptmx", "-o", trace, COMMAND, *form, "--machine", machine, preload=False, timeout=20)
        assert "openat" not in trace.read_text(), trace.read_text()


@pytest.mark.parametrize("name", ["proc/meminfo", "sys/devices/system/cpu/online", "topology.txt", "dev/kmsg", "dev/cpu_dma_latency"])
def test_a_file_of_the_kernel_in_a_recording(run, machine, name):
    """A read of /proc/kmsg takes messages from the log, and a read of a file in /sys may change the registers of a device."""
    linked, trace = "/sys/kernel/uevent_seqnum", machine.parent / "trace"
    (machine / name).unlink(missing_ok=True)
    (machine / name).parent.mkdir(exist_ok=True)
    (machine / name).symlink_to(linked)
    run("/usr/bin/strace", "-P", linked, "-o", trace, COMMAND, "doctor", "--machine", machine, preload=False, timeout=20)
    assert "read(" not in trace.read_text(), trace.read_text()


@pytest.mark.parametrize("link", ["root", "cwd", "fd"])
@pytest.mark.parametrize("name", ["proc/meminfo", "sys/devices/system/cpu/online", "topology.txt",
                                  "var/lib/kubelet/cpu_manager_state", "dev/cpu_dma_latency"])
def test_a_recording_below_a_link_of_a_process(run, machine, link, name):
    """Its path begins with /proc, but its files are not the kernel's."""
    (machine / name).unlink(missing_ok=True)
    (machine / name).parent.mkdir(parents=True, exist_ok=True)
    (machine / name).symlink_to("/dev/ptmx")
    folder = os.open(machine, os.O_PATH)
    trace, path = machine.parent / "trace", f"/proc/{os.getpid()}/" + {"root": f"root{machine}", "cwd": "cwd", "fd": f"fd/{folder}"}[link]
    before = os.getcwd()
    os.chdir(machine)
    try:
        run(*STRACE, "openat2", "-o", trace, COMMAND, "doctor", "--machine", path, preload=False, timeout=20)
    finally:
        os.chdir(before)
        os.close(folder)
    opened = [line for line in trace.read_text().splitlines() if f'"/{name}"' in line]
    assert opened and all("O_PATH" in line and "RESOLVE_IN_ROOT" in line and "ENOENT" in line for line in opened), opened


WITHOUT_OPENAT2 = SYSCALL_KIT + """
#include <errno.h>
#include <sys/syscall.h>
long syscall(long number, ...) {
    READ_ARGUMENTS(number, at)
    if (number == SYS_openat2) return errno = ENOSYS, -1;
    return PASS_ON(number, at);
}"""


@pytest.fixture
def without_openat2(compile_c):
    return compile_c(WITHOUT_OPENAT2, "-shared", "-fPIC", "-ldl", name="without_openat2.so")


def figures(machine, preload=None):
    """What the commands print about a recording."""
    env = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
    done = [subprocess.run([COMMAND, *form, "--machine", machine], env=env, capture_output=True, timeout=60, check=False)
            for form in (["doctor", "--json", "--data", "/data"], ["topo", "--json"])]
    return [(one.returncode, one.stdout) for one in done]


@pytest.mark.parametrize("kernel", ["new", "old"])
@pytest.mark.parametrize("name", ["proc/meminfo", "proc/self/mountinfo", "proc/self/cgroup", "topology.txt", "sys/bus/pci/devices", "sys/bus/pci",
                                  "sys/devices/system/node/node0", "proc/driver/nvidia/gpus", "proc/irq/77/effective_affinity_list"])
def test_links_of_a_recording(machine, without_openat2, name, kernel):
    """A link may name a file of the recording, whose folder is "/" to it. A file outside of it may be one that only its reader may read."""
    preload = without_openat2 if kernel == "old" else None
    (machine / "sys/fs/cgroup").mkdir(parents=True)
    (machine / "sys/fs/cgroup/cpu.max").write_text("100000 100000\n")
    (machine / "proc/self/cgroup").write_text("0::/\n")
    whole = figures(machine, preload)
    outside, inside = machine.parent / "outside", machine / "inside"
    os.rename(machine / name, outside)
    missing = figures(machine, preload)
    assert missing != whole
    for target in outside, os.path.relpath(outside, (machine / name).parent):
        (machine / name).symlink_to(target)
        assert figures(machine, preload) == missing
        (machine / name).unlink()
    os.rename(outside, inside)
    for target in "/inside", os.path.relpath(inside, (machine / name).parent), "/../../inside":
        (machine / name).symlink_to(target)
        assert figures(machine, preload) == (whole if kernel == "new" else missing)
        (machine / name).unlink()


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_a_group_outside_of_a_recording(machine, without_openat2, kernel):
    """The path of the group is text of the recording."""
    group = machine.parent / "outside"
    group.mkdir()
    (machine / "sys/fs/cgroup").mkdir(parents=True)
    (machine / "proc/self/cgroup").write_text("0::/../../../../outside\n")
    found = []
    for quota in "100000 100000", "max 100000":
        (group / "cpu.max").write_text(quota)
        found.append(figures(machine, without_openat2 if kernel == "old" else None))
    assert found[0] == found[1]


@pytest.mark.parametrize("kernel", ["new", "old"])
@pytest.mark.parametrize("name, minor", [("dev/dxg", ""), ("dev/nvidia7", "7"), ("topology.xml", ""), ("dev/nvidia", "/../../../o")])
def test_existence_outside_of_a_recording(machine, without_openat2, name, minor, kernel):
    """A look-up may mount a file system, wait for it, or tell whether a file of the reader's exists."""
    outside, preload = machine.parent / "o", without_openat2 if kernel == "old" else None
    if minor:  # the device is visible, unless it has no node while another one has
        for info in (machine / "proc/driver/nvidia/gpus").glob("*/information"):
            info.write_text(f"Model: X\nGPU UUID: GPU-1\nDevice Minor: {minor}\n")
        (machine / "dev").mkdir(exist_ok=True)
        (machine / "dev/nvidia0").touch()
    elif name == "dev/dxg":
        shutil.rmtree(machine / "proc/driver/nvidia")
        shutil.rmtree(machine / "sys/bus/pci/devices")
    (machine / name).parent.mkdir(exist_ok=True)
    if name == "dev/nvidia":
        (machine / name).mkdir()
    else:
        (machine / name).symlink_to(outside)
    missing = figures(machine, preload)
    outside.touch()
    assert figures(machine, preload) == missing


def bounded(*words, cpu_s=2):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=120, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s)))


@pytest.mark.parametrize("kind, links", [("GPU", 6000), ("network card", 400)])
def test_links_to_one_device(machine, kind, links):
    """Each link takes no space. All are the same GPU, or the same network card with many interrupts."""
    devices = machine / "sys/bus/pci/devices"
    if kind == "GPU":
        (devices / "0000:00:01.0/class").write_text("0x030200\n")
        (devices / "0000:00:01.0/vendor").write_text("0x10de\n")
    else:
        shutil.copytree(machine / "proc/irq/77", machine / "proc/irq/8")
        for i in range(3000):
            (devices / f"0000:00:01.0/msi_irqs/{i + 1000}").touch()
    for i in range(links):
        (devices / f"{i + 0x1000:04x}:00:01.0").symlink_to("0000:00:01.0")
    done = bounded("doctor", "--machine", machine)
    assert done.returncode == 1 and re.search(f"{kind} ....:00:01.0: CPUs of other nodes serve all", done.stdout), done


def test_a_machine_with_many_nodes(machine):
    """Each GPU is near half of the nodes, and the process may use only one CPU of the others."""
    nodes, devices = machine / "sys/devices/system/node", machine / "sys/bus/pci/devices"
    shutil.rmtree(nodes)
    for name, text in {"topology.txt": "Package:1 [NUMANode(memory=1GB)] Core:700 PU:1", "proc/self/status": "Cpus_allowed_list: 699\n",
                       "sys/devices/system/cpu/online": "0-699\n", "sys/devices/system/node/online": "0-699\n"}.items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(text)
    for i in range(700):
        (nodes / f"node{i}").mkdir()
        (nodes / f"node{i}/cpulist").write_text(f"{i}\n")
        (nodes / f"node{i}/distance").write_text(" ".join("10" if i == k else "20" for k in range(700)))
    for gpu in devices.iterdir():
        if (gpu / "class").read_text().startswith("0x0302"):
            (gpu / "numa_node").write_text("-1\n")
            (gpu / "local_cpulist").write_text("0-698\n")
            for i in range(56):
                (devices / f"{i + 0x1000:04x}:00:01.0").symlink_to(gpu.name)
            break
    done = bounded("topo", "--machine", machine)
    assert done.returncode == 0 and "the nearest CPUs that it may use are on node 699" in done.stdout, done.stdout[-2000:]


def test_a_topology_with_many_objects(run, tmp_path):
    """All are the same CPU."""
    run(COMMAND, "topo", "--record", tmp_path / "here", preload=False)
    xml = (tmp_path / "here/topology.xml").read_text()
    one = re.search('<object type="PU"[^>/]*', xml)[0]
    (tmp_path / "here/topology.xml").write_text(xml.replace(one, 20000 * f"{one}/>" + one, 1))
    done = bounded("topo", "--machine", tmp_path / "here")
    assert done.returncode == 1 and "Invalid argument" in done.stderr, done


def test_a_topology_of_brackets(run, tmp_path):
    """The end of a tag would be searched from each of them."""
    run(COMMAND, "topo", "--record", tmp_path / "here", preload=False)
    (tmp_path / "here/topology.xml").write_text("<" * 1500000 + (tmp_path / "here/topology.xml").read_text())
    done = bounded("topo", "--machine", tmp_path / "here")
    assert done.returncode == 0, done


def test_a_log_of_brackets(machine):
    """The number behind the brackets would be searched from each message of a read to its end."""
    read = (b"NVRM: Xid (" * 11900 + b"):" * 65500).ljust((256 << 10) - 5) + b"): 9"
    (machine / "dev").mkdir()
    (machine / "dev/kmsg").write_bytes(read * 4 + b"NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n")
    done = bounded("doctor", "--machine", machine)
    assert done.returncode == 1 and "Xid 79" in done.stdout, done


@pytest.mark.parametrize("kind", ["Machine", "NUMANode", "Cache", "PCIDev", "Misc", "PU"])
@pytest.mark.parametrize("tag", ["root", "topology", 'topology version="2.0"'])
@pytest.mark.parametrize("inside", ["", "PU", "NUMANode"])
def test_a_topology_of_few_objects(tmp_path, tag, kind, inside):
    """hwloc would fail an assertion, or dereference NULL, at some of them."""
    sets = 'os_index="0" cpuset="0x3" complete_cpuset="0x1" nodeset="0x0" complete_nodeset="0x1" gp_index="1"'
    (tmp_path / "topology.xml").write_text(f"""<{tag}><object type="{kind}" {sets if kind != "PCIDev" else 'os_index="0"'}>
{inside and f'<object type="{inside}" {sets}/>'}</object></{tag.split()[0]}>""")
    done = bounded("topo", "--machine", tmp_path)
    assert done.returncode == 1 and "Invalid argument" in done.stderr and len(done.stderr.splitlines()) == 1, done


@pytest.mark.parametrize("text", ["MemCache:2 PU:2", "Package:2 memcache:3 PU:3", "Package:7(indexes=Core) Core:2 PU:1"])
def test_a_description_at_which_hwloc_asserts(tmp_path, text):
    (tmp_path / "topology.txt").write_text(text)
    done = bounded("topo", "--machine", tmp_path)
    assert done.returncode == 1 and "Argument list too long" in done.stderr, done


@needs_root
@pytest.mark.skipif(re.search("[0-9a-f]{64}", pathlib.Path("/proc/self/cgroup").read_text()) is not None, reason="this is a container")
@pytest.mark.parametrize("mount, known", [("-t tmpfs {id} {folder}", False), ("--bind {folder}/hostname /etc/hostname", True)])
def test_the_id_of_a_container(run, tmp_path, mount, known):
    """Any user's FUSE file system, and each of Docker's layers on the host, may have such a path."""
    name = 32 * "ab"
    (tmp_path / name).mkdir()
    (tmp_path / name / "hostname").write_text("h\n")
    script = f"mount {mount.format(id=name, folder=tmp_path / name)}" + '; exec "$@"'
    run("unshare", "-m", "sh", "-ec", script, "sh", sys.executable, "-c", "import ctypes" + START_COPIES + "copy(2)", sim=True,
        GPUFEED_LOG=tmp_path / "log")
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["container"] == (name if known else None)
