# SPDX-License-Identifier: Apache-2.0
"""Faults in every call that staging and pinning make themselves: the program's results are the same,
and what was turned off is said in one line."""

import re

import pytest
from conftest import APPS, SOURCE

# The program calls these itself, or they never reach it by way of the library.
NOT_OURS = {"cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetPCIBusId"}
HOOKED = {"cuMemHostRegister_v2", "cuDevicePrimaryCtxRelease_v2"}
STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": 65536}
OFF = re.compile(r"gpufeed: .*(left to the driver|stays at)")

REFUSALS = ["populate-read", "populate-read-fault", "populate-write", "populate-write-memory",
            "dontfork", "hugepage", "madvise", "shared-map", "reserve-map", "large-map",
            "large-unmap", "mbind", "move-pages", "affinity", "policy", "name", "threads"]
# How many lines say what each turns off. A helper's stack is such a mapping, or one that was kept.
SAID = {"populate-write": [1], "populate-write-memory": [1], "threads": [1], "dontfork": [1],
        "madvise": [2], "shared-map": [1], "reserve-map": [1, 2], "large-map": [2]}


def entries():
    text = (SOURCE / "src" / "hook" / "hooks.def").read_text()
    used = set(re.findall(r"^GF_CU_USE\((\w+)\)", text, re.M))
    return sorted((used | HOOKED) - NOT_OURS)


@pytest.fixture(scope="module")
def expected():
    return {}


def native(run, expected, *arguments, **environment):
    if arguments not in expected:
        expected[arguments] = run(APPS / "steps", *arguments, sim=True, preload=False).stdout
    return expected[arguments]


def lines_about(done):
    return [line for line in done.stderr.splitlines() if OFF.match(line)]


@pytest.mark.parametrize("entry", entries())
def test_calls_of_the_driver(run, expected, entry):
    for plan in ("2:999", "1+:2"):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:{plan}", **STAGED)
        assert (done.returncode, done.stdout) == (0, native(run, expected)), (plan, done.stderr)
        # One for copies, one for pinned memory, where both need it.
        assert len(lines_about(done)) <= (2 if entry == "cuMemHostRegister_v2" else 1), done.stderr


def test_a_buffer_that_cannot_be_unregistered(run, expected):
    """That is a call of ours, and the program's free is told nothing of it."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemHostUnregister:1+:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr
    assert len(lines_about(done)) == 1 and "cuMemHostUnregister failed (999)" in done.stderr


def test_what_was_turned_off_is_said(run):
    for entry in ("cuEventRecord", "cuEventCreate", "cuMemHostRegister_v2"):
        done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:1+:999", **STAGED)
        assert len(lines_about(done)) >= 1 and entry[:12] in done.stderr, (entry, done.stderr)


@pytest.mark.parametrize("entry", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_a_transfer_that_is_refused_at_once(run, expected, entry):
    """Nothing stands on the stream: the driver does the whole copy."""
    done = run(APPS / "steps", sim=True, SIM_FAULT=f"{entry}:1:999", **STAGED)
    assert (done.returncode, done.stdout) == (0, native(run, expected)), done.stderr


def test_a_transfer_that_is_refused_in_the_middle(run, expected):
    """A part is under way: that copy answers what the driver said, and no other."""
    done = run(APPS / "steps", sim=True, SIM_FAULT="cuMemcpyHtoDAsync_v2:3:999", **STAGED)
    plain = native(run, expected).splitlines()
    wrong = [line for line, right in zip(done.stdout.splitlines(), plain) if line != right]
    assert done.returncode == 0 and wrong[0].startswith("h2d -> 999") and len(wrong) == 2, wrong


@pytest.mark.parametrize("refusal", REFUSALS)
def test_calls_of_the_system(run, expected, refusal):
    done = run(APPS / "steps", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, native(run, expected, refusal)), done.stderr
    assert len(lines_about(done)) in SAID.get(refusal, [0]), done.stderr
