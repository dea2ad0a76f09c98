# SPDX-License-Identifier: Apache-2.0
"""Little memory, few CPUs, a small quota: the results are the same, and the decisions are right."""

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
    """In both directions, of all copies: by the counters that each reason has."""
    return len(re.findall(rf"^gpufeed: copies (?:to|from) the GPU;.* {reason} 6 ", said, re.M)) == 2


def large(said):
    return bool(re.search(r"pinned memory:.* large", said))


def test_locked_memory_does_not_bind(run):
    """The driver's pinning is not counted against it."""
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
    """Two threads do not beat the driver on the way back."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    said = same(run, "taskset", "-c", "{},{}".format(*cpus))
    assert staged(said) and re.search(r"copies from the GPU;.* few_threads 6 ", said), said


def test_half_a_cpu(run, group):
    said = same(run, *group("cpu", cfs_period_us=100000, cfs_quota_us=50000),
                GPUFEED_STAGE_MIN=65536)
    assert not staged(said) and not large(said) and told(said, "few_threads")


def test_little_memory(run, group):
    """The pinned buffers would fit; what they leave would not do. A large ring would not fit."""
    said = same(run, *group("memory", limit_in_bytes=LITTLE), **FOUR)
    assert not large(said), said
    ring = re.search(r"ring (\d+) of", said)
    assert ring and int(ring.group(1)) <= LITTLE // 4, said


def test_that_memory_is_looked_at(run, group):
    """The mistake that is planted here makes the test above fail."""
    mistaken = {**FOUR, "GF_PLANT": "ignores_limits",
                "LD_LIBRARY_PATH": f"{APPS / 'planted'}:{ENGINE_DIR}:{SIM_DIR}"}
    assert large(same(run, *group("memory", limit_in_bytes=LITTLE), **mistaken))


def test_little_address_space(run):
    same(run, "prlimit", f"--as={1 << 30}", **FOUR)


@pytest.mark.parametrize("files", [40, 24])
def test_few_files(run, files):
    same(run, "prlimit", f"--nofile={files}", **FOUR)
