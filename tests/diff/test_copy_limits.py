# SPDX-License-Identifier: Apache-2.0
"""Little memory, few CPUs, a small quota: the results are the same, and the library decides
correctly."""

import os
import pathlib
import re

import pytest
from conftest import APPS, ENGINE_DIR, SIM_DIR

ROOT = pathlib.Path("/sys/fs/cgroup")
LITTLE = 200 << 20
FOUR = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": 65536}


@pytest.fixture
def group():
    """group(controller, {file: value}) -> a shell prefix that enters a new control group."""
    made = []

    def make(controller, **values):
        parent = ROOT / controller if (ROOT / controller).is_dir() else ROOT
        path = parent / f"gpufeed-diff-{os.getpid()}-{len(made)}"
        try:
            path.mkdir()
            made.append(path)
            for name, value in values.items():
                file = path / f"{controller}.{name}"
                if not file.exists():
                    pytest.skip(f"no {file} here")
                file.write_text(str(value))
        except OSError as error:
            pytest.skip(f"no control groups here: {error}")
        return ["sh", "-c", f'echo $$ > {path}/cgroup.procs && exec "$@"', "sh"]
    yield make
    for path in made:
        path.rmdir()


def same(run, *prefix, **environment):
    plain = run(APPS / "steps", sim=True, preload=False)
    ours = run(*prefix, APPS / "steps", sim=True, GPUFEED_VERBOSE=2, **environment)
    assert (ours.returncode, ours.stdout) == (0, plain.stdout), ours.stderr[-1000:]
    return ours.stderr


def staged(said):
    return bool(re.search(r"copies to the GPU; staged", said))


def told(said, reason):
    """Returns whether the summary counts 3 copies for this reason in each direction."""
    return len(re.findall(rf"^gpufeed: copies (?:to|from) the GPU;.* {reason} 3 ", said, re.M)) == 2


def large(said):
    return bool(re.search(r"pinned memory:.* large", said))


def test_locked_memory_does_not_bind(run):
    """The limit does not count the driver's pinned memory."""
    said = same(run, "prlimit", "--memlock=65536:65536", **FOUR)
    assert staged(said) and large(said)


def test_one_cpu(run):
    said = same(run, "taskset", "-c", min(os.sched_getaffinity(0)), GPUFEED_STAGE_MIN=65536)
    assert not staged(said) and not large(said) and told(said, "few_threads")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_two_cpus(run):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    said = same(run, "taskset", "-c", "{},{}".format(*cpus), GPUFEED_STAGE_MIN=65536)
    assert staged(said) and not large(said)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_two_cpus_and_nothing_asked_for(run):
    """On two CPUs, two threads do not copy from the device faster than the driver."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    said = same(run, "taskset", "-c", "{},{}".format(*cpus))
    assert staged(said) and re.search(r"copies from the GPU;.* few_threads 3 ", said), said


# Six copies of 4 MiB and two of 16 MiB each way.
COPIES = """
from ctypes import CDLL, byref, c_size_t, c_uint64, c_void_p, create_string_buffer
cuda = CDLL("libcuda.so.1")
context, device, host = c_void_p(), c_uint64(), create_string_buffer(16 << 20)
assert not (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(byref(context), 0) or cuda.cuCtxSetCurrent(context)
            or cuda.cuMemAlloc_v2(byref(device), c_size_t(16 << 20)))
for size in [4 << 20] * 6 + [16 << 20] * 2:
    assert not (cuda.cuMemcpyHtoD_v2(device, host, c_size_t(size)) or cuda.cuMemcpyDtoH_v2(host, device, c_size_t(size)))
"""


def reasons(run, cpus, **environment):
    """Returns, for each direction, {reason: copies} of the copies that were not staged."""
    done = run("taskset", "-c", ",".join(map(str, cpus)), "/usr/bin/python3", "-c", COPIES, sim=True, GPUFEED_VERBOSE=2,
               **environment)
    assert done.returncode == 0, done.stderr
    lines = dict(re.findall(r"^gpufeed: copies (to|from) the GPU;(.*)$", done.stderr, re.M))
    return {way: {why: int(count) for why, count in re.findall(r" ([a-z_]+) (\d+) \(", line)} for way, line in lines.items()}


def test_one_cpu_and_nothing_asked_for(run):
    """The reason stays the same if only the copy's size is decisive."""
    found = reasons(run, sorted(os.sched_getaffinity(0))[:1])
    assert {way: counts.get("few_threads") for way, counts in found.items()} == {"to": 8, "from": 8}, found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_two_cpus_and_sizes_that_do_not_pay(run):
    found = reasons(run, sorted(os.sched_getaffinity(0))[:2])
    assert found["from"].get("few_threads") == 8 and found["to"].get("small") == 6, found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_two_cpus_and_few_questions(run):
    """Copies that are only counted do not query the driver each time. They make nine queries here; one for each copy
    would be more."""
    found = reasons(run, sorted(os.sched_getaffinity(0))[:2], SIM_FAULT="cuPointerGetAttributes:10+:999")
    assert found["from"].get("few_threads") == 8 and found["to"].get("small") == 6, found


def test_half_a_cpu(run, group):
    said = same(run, *group("cpu", cfs_period_us=100000, cfs_quota_us=50000),
                GPUFEED_STAGE_MIN=65536)
    assert not staged(said) and not large(said) and told(said, "few_threads")


def test_little_memory(run, group):
    """The pinned buffers would fit, but leave too little memory. A large ring would not fit."""
    said = same(run, *group("memory", limit_in_bytes=LITTLE), **FOUR)
    assert not large(said), said
    ring = re.search(r"staging ring of (\d+) bytes", said)
    assert ring and int(ring.group(1)) <= LITTLE // 4, said


def test_that_memory_is_looked_at(run, group):
    """The mutant that ignores limits fails the test above."""
    mutant = {**FOUR, "GF_MUTATION": "ignores_limits",
                "LD_LIBRARY_PATH": f"{APPS / 'mutants'}:{ENGINE_DIR}:{SIM_DIR}"}
    assert large(same(run, *group("memory", limit_in_bytes=LITTLE), **mutant))


def test_little_address_space(run):
    same(run, "prlimit", f"--as={1 << 30}", **FOUR)


@pytest.mark.parametrize("files", [40, 24])
def test_few_files(run, files):
    same(run, "prlimit", f"--nofile={files}", **FOUR)
