# SPDX-License-Identifier: Apache-2.0
"""The parts of bench/nodes.py that read a machine, start a process in its place, and judge places."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]
import nodes  # noqa: E402
import nodes_copies  # noqa: E402
import nodes_fleets  # noqa: E402
import nodes_machine  # noqa: E402
import nodes_places  # noqa: E402

CPUS = frozenset(range(8))


def put(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text + "\n")


@pytest.fixture
def root(tmp_path):
    """A machine of two nodes with CPUs and one with memory only; GPUs on nodes 0 and 1, and one whose node is unknown."""
    node = "sys/devices/system/node"
    put(tmp_path, f"{node}/online", "0-2")
    for number, cpus, distance in ((0, "0-3", "10 21 31"), (1, "4-7", "21 10 17"), (2, "", "31 17 10")):
        put(tmp_path, f"{node}/node{number}/cpulist", cpus)
        put(tmp_path, f"{node}/node{number}/distance", distance)
        put(tmp_path, f"{node}/node{number}/meminfo", f"Node {number} MemTotal:  {(number + 1) << 20} kB")
    for pci, vendor, where in (("0000:81:00.0", "0x10de", 1), ("0000:41:00.0", "0x10de", 0), ("0000:01:00.0", "0x8086", 0),
                               ("0000:c1:00.0", "0x10de", -1)):
        for name, text in (("vendor", vendor), ("class", "0x030200"), ("numa_node", str(where))):
            put(tmp_path, f"sys/bus/pci/devices/{pci}/{name}", text)
    return tmp_path


def test_reading(root):
    reading = nodes_machine.read(root, CPUS)
    assert reading.cpus == {0: frozenset(range(4)), 1: frozenset(range(4, 8)), 2: frozenset()}
    assert reading.memory == {0: 1024, 1: 2048, 2: 3072}
    assert [(gpu.pci, gpu.node) for gpu in reading.gpus] == [("0000:41:00.0", 0), ("0000:81:00.0", 1), ("0000:c1:00.0", -1)]
    assert [gpu.index for gpu in reading.placed()] == [0, 1]
    assert (reading.far_from(0), reading.far_from(1)) == (1, 0)  # node 2 has no CPUs
    json.dumps(reading.record())


def with_permissions(reading):
    return reading._replace(policy="permitted", affinity="permitted")


@pytest.mark.parametrize("change, why", [
    ({}, ""), ({"gpus": []}, "no GPU was found"), ({"cpus": {0: CPUS}}, "one NUMA node only"),
    ({"cpus": {0: CPUS, 1: frozenset()}}, "one NUMA node only"),
    ({"gpus": [nodes_machine.Gpu(0, "0000:41:00.0", -1)]}, "no GPU's NUMA node is known"),
    ({"affinity": "refused (Operation not permitted)"}, "sched_setaffinity is refused (Operation not permitted)")])
def test_what_prevents_the_measurement(root, change, why):
    assert with_permissions(nodes_machine.read(root, CPUS))._replace(**change).obstacle() == why


def test_a_machine_with_one_node_ends_with_a_line(root):
    env = {name: value for name, value in os.environ.items() if name != "GF_DRY"}
    done = subprocess.run([sys.executable, ROOT / "bench" / "nodes.py"], env=env, capture_output=True, text=True, check=False)
    if done.returncode != nodes.CODE_SKIP:
        pytest.skip("this machine has several nodes and a GPU")
    assert "node 0: usable CPUs" in done.stdout and done.stdout.splitlines()[-1].startswith("blocked: ")


def test_places_of_ranks(root):
    reading = with_permissions(nodes_machine.read(root, CPUS))
    assert nodes_fleets.places_of(reading, reading.placed()) == "0-3:0;4-7:1"
    assert nodes_fleets.places_of(reading, reading.placed(), far=True) == "4-7:1;0-3:0"
    assert nodes_fleets.places_of(reading._replace(policy="refused"), reading.placed()) == "0-3:;4-7:"


SHOW = "import os; print(sorted(os.sched_getaffinity(0)), os.environ.get('LOCAL_RANK'))"


def test_a_process_starts_in_the_place_of_its_rank():
    first = min(os.sched_getaffinity(0))
    done = subprocess.run([sys.executable, nodes_fleets.START, "--places", f"4095:0;{first}:", "--", sys.executable, "-c", SHOW],
                          env={**os.environ, "LOCAL_RANK": "1"}, capture_output=True, text=True, check=False)
    assert done.stdout == f"[{first}] 1\n", done


def test_a_place_that_is_refused_is_named():
    done = subprocess.run([sys.executable, nodes_fleets.START, "--places", "4095:0", "--", "/bin/true"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "4095:0: Invalid argument" in done.stderr


def test_ranks_answer_by_pipes_and_a_failed_rank_ends_the_job(tmp_path):
    for name in ("in.0", "out.0", "in.1", "out.1"):
        os.mkfifo(tmp_path / name)
    job = subprocess.Popen([sys.executable, nodes_fleets.START, "--ranks", "2", "--pipes", tmp_path, "--", "sh", "-c",
                            'read word; echo "$word $LOCAL_RANK"; read word; exit $word'])
    pipes = [(open(tmp_path / f"in.{rank}", "r+b", buffering=0), open(tmp_path / f"out.{rank}", "rb", buffering=0)) for rank in (0, 1)]
    for write, _ in pipes:
        write.write(b"hello\n")
    assert [read.readline() for _, read in pipes] == [b"hello 0\n", b"hello 1\n"]
    pipes[1][0].write(b"3\n")  # rank 0 waits for its second line
    assert job.wait(60) == 1
    for pair in pipes:
        for pipe in pair:
            pipe.close()


def test_pages_and_threads_are_counted_from_outside():
    gpu = nodes_machine.Gpu(0, "0000:41:00.0", 0)
    mine = nodes_places.count_threads("ours", gpu, "threads", [os.getpid()], os.sched_getaffinity(0))
    assert mine.threads == mine.threads_near >= 1
    assert nodes_places.count_threads("ours", gpu, "threads", [os.getpid()], frozenset()).threads_near == 0
    heap = nodes_places.count_private("ours", gpu, os.getpid())
    assert heap.near + heap.elsewhere > 100


def test_ranges_of_a_line():
    assert nodes_places.ranges_in("pageable=1000-3000 pinned=0-0") == {"pageable": [(0x1000, 0x3000)]}


def place(**change):
    return nodes_places.Place("ours", 0, 0, "pinned buffer", near=100)._replace(**change)


@pytest.mark.parametrize("change, count", [
    ({}, 0), ({"elsewhere": 1}, 0), ({"elsewhere": 2}, 1), ({"arm": "far", "elsewhere": 99}, 0), ({"near": 0}, 0),
    ({"what": "threads during copies", "near": 0, "threads": 5, "threads_near": 5}, 0),
    ({"what": "threads during copies", "near": 0, "threads": 5, "threads_near": 4}, 1)])
def test_wrong_places(change, count):
    assert len(nodes_copies.wrong([place(**change)])) == count


def test_claims_name_the_binders_that_run():
    made = nodes_fleets.claims({"unbound": 0, "numactl": 0, "ours": 0}, ("images/s", "1/p99"))
    assert [(over, under, figure) for over, under, figure, least, _ in made if least] == [
        ("ours", "numactl", "images/s"), ("ours", "numactl", "1/p99")]
    assert ("numactl", "unbound", "images/s", None, "by images/s") in made
