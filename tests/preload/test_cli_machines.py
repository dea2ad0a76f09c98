# SPDX-License-Identifier: Apache-2.0
"""gpufeed run and topo on recorded machines: which GPU and which CPUs they choose."""

import json
import os
import subprocess
import sys

import pytest

from clikit import *
from conftest import COMMAND, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
from make import Machine, gb200  # noqa: E402  pylint: disable=wrong-import-position

# Two nodes of one CPU each, from the CPUs that this test may use.
ALLOWED = sorted(os.sched_getaffinity(0))
GPUS = ["0000:1b:00.0", "0000:43:00.0", "0000:9d:00.0"]
UUIDS = ["GPU-11111111-0000-0000-0000-000000000001", "GPU-22222222-0000-0000-0000-000000000002",
         "GPU-22333333-0000-0000-0000-000000000003"]


def write_machine(folder, gpu_nodes, driver=True, models=None, devices=None):
    machine = Machine(2, 1, 1, 1, 64)
    machine.files["topology.txt"] = (
        f"Package:2 [NUMANode(memory=64GB)] Core:1 PU:1(indexes={ALLOWED[0]},{ALLOWED[1]})")
    for node in (0, 1):
        machine.nodes[node] = (str(ALLOWED[node]), 64)
    for i, node in enumerate(gpu_nodes):
        machine.gpu(GPUS[i], node)
        if driver:
            machine.files[f"proc/driver/nvidia/gpus/{GPUS[i]}/information"] = (
                f"Model: \t\t {(models or {}).get(i, 'NVIDIA H200')}\nIRQ:   \t\t 11\n"
                f"GPU UUID: \t {UUIDS[i]}\nBus Location: \t {GPUS[i]}\nDevice Minor: \t {i}")
        if devices and i in devices:
            machine.files[f"dev/nvidia{i}"] = ""
    machine.write(folder)
    return folder


needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
SHOW_MASK = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)), "
             "os.environ.get('GPUFEED_BOUND', 'no hint'))"]


def expand(text):
    """A list of CPUs as the kernel writes it."""
    spans = [part.split("-") for part in text.split(",")]
    return [cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1)]


def plan(gpufeed, machine, *flags, **env):
    result = gpufeed("run", "--print", f"--machine={machine}", "--bind=node", *flags, "true", **env)
    assert result.returncode == 0, result.stderr
    return next(line for line in result.stdout.splitlines() if line.startswith("binding "))


@needs_two
def test_binds_before_exec_and_says_so(gpufeed, tmp_path):
    machine = write_machine(tmp_path / "one", [1])
    result = gpufeed("run", f"--machine={machine}", "--bind=node", "--mem=off", *SHOW_MASK)
    mask, hint = result.stdout.split("] ")
    assert mask == f"[{ALLOWED[1]}", result.stderr
    assert f";set={ALLOWED[1]};policy=default;nodes=" in hint
    assert hint.startswith("v1;pid=")
    # Nothing is bound with --bind=off, in the modes observe and off, or if the program cannot be preloaded.
    for flags in (["--bind=off"], ["--mode=observe"], ["--mode=off"]):
        result = gpufeed("run", f"--machine={machine}", "--bind=node", *flags, *SHOW_MASK)
        assert result.stdout.rstrip() == f"{ALLOWED} no hint"


@needs_two
def test_a_second_run_starts_from_the_first_mask(gpufeed, layout, tmp_path):
    first = write_machine(tmp_path / "first", [1])
    second = write_machine(tmp_path / "second", [0])
    again = [layout / "bin" / "gpufeed", "run", f"--machine={second}", "--bind=node", "--mem=off"]
    result = gpufeed("run", f"--machine={first}", "--bind=node", "--mem=off", *map(str, again),
                     *SHOW_MASK)
    mask, hint = result.stdout.split("] ")
    assert mask == f"[{ALLOWED[0]}", result.stderr
    assert f";set={ALLOWED[0]};" in hint and f";set={ALLOWED[1]};" not in hint
    assert f";was={ALLOWED[0]};" not in hint


@needs_two
def test_a_hint_that_allows_more_than_the_kernel(gpufeed, tmp_path):
    """An older control group or another tool set the hint. CPUs of the hint that the present cpuset forbids are
    ignored."""
    machine = write_machine(tmp_path / "one", [1])
    beyond = ALLOWED[-1] + 64
    was = ",".join(map(str, ALLOWED + [beyond]))
    present = ",".join(map(str, ALLOWED))
    result = gpufeed("run", f"--machine={machine}", "--bind=node", "--mem=off", "--verbose=2",
                     *SHOW_MASK,
                     GPUFEED_BOUND=f"v1;pid=1;was={was};set={present};policy=default;nodes=")
    mask, hint = result.stdout.split("] ")
    assert mask == f"[{ALLOWED[1]}", result.stderr
    assert str(beyond) not in hint.split("was=")[1]
    assert "did not keep" not in result.stderr


POLICY = """
import ctypes, os, sys
put, get = (238, 239) if os.uname().machine == "x86_64" else (237, 236)
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "set":
    node = ctypes.c_ulong(1)
    if libc.syscall(put, int(sys.argv[2]), ctypes.byref(node), 64):
        sys.exit(77)
    os.execv(sys.argv[3], sys.argv[3:])
mode = ctypes.c_int(-1)
print(libc.syscall(get, ctypes.byref(mode), None, 0, None, 0), mode.value)
"""


@needs_two
@pytest.mark.parametrize("mode, hint, expected", [
    (3, None, 3),  # numactl --interleave=0 gpufeed run ...
    (1, "v1;pid=1;was={0};set={0};policy=preferred;nodes=7", 1),  # the policy differs from the hint's
    (1, "v1;pid=1;was={0};set={0};policy=preferred;nodes=0", 0),  # set by an outer `gpufeed run`
])
def test_policy_of_the_user_stays(layout, run, tmp_path, mode, hint, expected):
    machine = write_machine(tmp_path / "one", [1])
    env = {"GPUFEED_BOUND": hint.format(",".join(map(str, ALLOWED)))} if hint else {}
    result = run(sys.executable, "-c", POLICY, "set", mode, layout / "bin" / "gpufeed", "run",
                 f"--machine={machine}", "--bind=node", sys.executable, "-c", POLICY, "get",
                 preload=False, **env)
    if result.returncode == 77:
        pytest.skip("memory policies are refused here")
    assert result.stdout == f"0 {expected}\n", result.stderr


@needs_two
def test_what_is_certain(gpufeed, tmp_path):
    two = write_machine(tmp_path / "two", [0, 1])
    same = write_machine(tmp_path / "same", [1, 1])
    mixed = write_machine(tmp_path / "mixed", [0, 1], models={0: "NVIDIA T4"})
    driverless = write_machine(tmp_path / "driverless", [0, 1], driver=False)
    rank = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}
    first, second = f"GPU {GPUS[0]} (", f"GPU {GPUS[1]} ("

    assert "not bound before the start: 2 GPUs are visible" in plan(gpufeed, two)
    assert "near the same node" in plan(gpufeed, same)
    assert "and others" in plan(gpufeed, same)
    # Ranks that share a node by whole cores need to know their own part.
    assert "not bound before the start" in plan(gpufeed, same, "--bind=exclusive")

    assert second in plan(gpufeed, two, **rank)
    assert "local rank 1 of 2 from torchrun" in plan(gpufeed, two, **rank)
    rank4 = {**rank, "LOCAL_WORLD_SIZE": "4"}
    assert "not bound before the start" in plan(gpufeed, two, **rank4)

    assert second in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="1")
    assert first in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="0,9,1")
    assert "no GPU is visible" in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="")
    assert "no GPU is visible" in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="-1")
    assert second in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="gpu-222")
    assert "MIG" in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="MIG-c0ffee")
    assert "twice" in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="1,1")
    assert first in plan(gpufeed, two, CUDA_VISIBLE_DEVICES="1,0", **rank)

    assert "CUDA_DEVICE_ORDER is not PCI_BUS_ID" in plan(gpufeed, mixed, CUDA_VISIBLE_DEVICES="1")
    assert second in plan(gpufeed, mixed, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert second in plan(gpufeed, mixed, CUDA_VISIBLE_DEVICES="GPU-222")
    assert second in plan(gpufeed, driverless, CUDA_VISIBLE_DEVICES="1",
                          CUDA_DEVICE_ORDER="PCI_BUS_ID")


@needs_two
def test_ambiguous_uuid_and_missing_device_nodes(gpufeed, tmp_path):
    three = write_machine(tmp_path / "three", [0, 1, 0])
    assert "no GPU is visible" in plan(gpufeed, three, CUDA_VISIBLE_DEVICES="GPU-22")
    # A container with one device sees the files of all devices, but only its own device node.
    passed = write_machine(tmp_path / "passed", [0, 1, 0], devices=[1])
    assert f"GPU {GPUS[1]} (the only visible GPU)" in plan(gpufeed, passed)


@needs_two
def test_topo(gpufeed, tmp_path):
    machine = write_machine(tmp_path / "machine", [1, -1])
    text = gpufeed("topo", "--machine", str(machine))
    assert text.returncode == 0, text.stderr
    assert f"GPU {GPUS[0]}  NVIDIA H200, device 0\n    node 1 (sysfs)" in text.stdout
    topo = json.loads(gpufeed("topo", "--json", f"--machine={machine}").stdout)
    assert [node["cpus"] for node in topo["nodes"]] == [str(ALLOWED[0]), str(ALLOWED[1])]
    assert topo["nodes"][0]["memory_bytes"] == 64 << 30
    gpu = topo["gpus"][0]
    assert (gpu["pci"], gpu["nodes"], gpu["node_source"]) == (GPUS[0], [1], "sysfs")
    assert (gpu["name"], gpu["uuid"], gpu["device"]) == ("NVIDIA H200", UUIDS[0], 0)
    assert gpu["usable_cpus"] == str(ALLOWED[1])
    assert expand(topo["process"]["cpus"]) == ALLOWED


@needs_two
def test_topo_names_the_nearest_node_that_may_be_used(gpufeed, run, tmp_path):
    """The GPU's node is the one of /sys, even if the process may use CPUs of another node only."""
    machine = write_machine(tmp_path / "machine", [1])
    command = ["taskset", "-c", str(ALLOWED[0]), COMMAND, "topo", f"--machine={machine}"]
    text = run(*command, preload=False).stdout
    assert f"node 1 (sysfs), nearest CPUs {ALLOWED[1]}; this process may not use any of them" in text, text
    assert ", the nearest CPUs that it may use are on node 0" in text, text
    gpu, = json.loads(run(*command, "--json", preload=False).stdout)["gpus"]
    assert (gpu["nodes"], gpu["usable_cpus"], gpu["nearest_usable_node"]) == ([1], "", 0)
    gpu, = json.loads(gpufeed("topo", "--json", f"--machine={machine}").stdout)["gpus"]
    assert gpu["nearest_usable_node"] in (1, None), gpu


def test_topo_of_this_machine_survives_being_recorded(gpufeed, tmp_path):
    here = json.loads(gpufeed("topo", "--json").stdout)
    done = gpufeed("topo", "--record", str(tmp_path / "new" / "folder"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"wrote {tmp_path}/new/folder\n", "")
    recorded = json.loads(gpufeed("topo", "--json",
                                  GPUFEED_MACHINE=str(tmp_path / "new" / "folder")).stdout)
    assert recorded["recorded"] and not here["recorded"]
    assert recorded["nodes"] == here["nodes"] and recorded["gpus"] == here["gpus"]


@needs_two
def test_topo_joins_empty_nodes(gpufeed, tmp_path):
    gb200().write(tmp_path)
    text = gpufeed("topo", f"--machine={tmp_path}").stdout
    assert [line for line in text.splitlines() if "no memory" in line] == [
        f"nodes {first}-{first + 6} no CPUs, no memory" for first in (3, 11, 19, 27)]
    assert "\nnode 26   no CPUs, 185.0 GiB, memory of a GPU" in text


@needs_two
def test_topo_with_odd_names(gpufeed, tmp_path):
    machine = write_machine(tmp_path / "machine", [1])
    information = machine / "proc/driver/nvidia/gpus" / GPUS[0] / "information"
    information.write_bytes(b"Model: \t GPU \xff\nGPU UUID: \t " + UUIDS[0].encode())
    text = gpufeed("topo", "--json", f"--machine={machine}", LOCAL_RANK="1")
    assert json.loads(text.stdout)["gpus"][0]["name"] == "GPU ?"
    assert "is local rank 1 (torchrun)" in subprocess.run(
        [COMMAND, "topo"], env={"LOCAL_RANK": "1"}, text=True, capture_output=True,
        check=True).stdout


def test_topo_mistakes(gpufeed, tmp_path):
    for args, line in ((["--jsno"], "--jsno is not a flag (did you mean --json?)"),
                       (["--jso"], "--jso is not a flag (did you mean --json?)"),
                       (["--json=1"], "--json takes no value"),
                       (["--something"], "--something is not a flag; `gpufeed topo --help` lists them"),
                       (["-j"], "-j is not a flag; `gpufeed topo --help` lists them"),
                       (["--machine", "--"], "--machine needs a folder"),
                       (["--json", "more"], "unexpected argument more; see `gpufeed help topo`")):
        for verb in ("topo", "doctor"):
            found = gpufeed(verb, *args)
            assert (found.returncode, found.stdout) == (2, "")
            assert found.stderr == f"gpufeed {verb}: {line}\n".replace("topo", verb)
    missing = gpufeed("topo", "--machine", str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "No such file or directory" in missing.stderr
    other = gpufeed("topo", "--machine", str(tmp_path))
    assert other.returncode == 1 and "`gpufeed topo --record` has not written this folder" in other.stderr
    assert gpufeed("topo", "--record").stderr == "gpufeed topo: --record needs a folder\n"
    (tmp_path / "file").write_text("")
    assert gpufeed("topo", "--record", str(tmp_path / "file")).returncode == 1


def test_a_long_path_leaves_space_for_the_reason():
    told = subprocess.run([COMMAND, "topo", "--machine=/nonexistent" + "/folder" * 200], capture_output=True, text=True, check=False)
    assert told.returncode == 1 and told.stderr.endswith(": No such file or directory\n"), told
