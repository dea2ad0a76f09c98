# SPDX-License-Identifier: Apache-2.0
"""Copies by which a DataLoader's thread pins its batches: several threads share them, and the program sees no difference."""

import functools
import json
import pathlib
import subprocess

import pytest
from conftest import APPS, Runner

LIBRARY = APPS / "libtorch_cpu.so"
SLOW = LIBRARY.with_suffix(".slow.so")
PROGRAM = pathlib.Path(__file__).with_name("pin_batch.py")
PYTHON = "/usr/bin/python3"
HELPED = {"GPUFEED_STAGE_THREADS": 4}

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="the compiler has no OpenMP")


@functools.cache  # the library's options change nothing there
def plain_run(case, library):
    return Runner()(PYTHON, PROGRAM, case, library, sim=True, preload=False, timeout=200)


def shares(run, tmp_path, case, library=LIBRARY, **environment):
    """Returns how many copies were shared; the output is as without the library."""
    report = tmp_path / "report.json"
    plain = plain_run(case, library)
    ours = run(PYTHON, PROGRAM, case, library, sim=True, timeout=200, GPUFEED_REPORT=report, **HELPED, **environment)
    assert plain.returncode == 0 and len(plain.stdout.splitlines()) == 12, plain.stderr
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
    counted = json.loads(report.read_text())["transfers"]["parallel_pin"]
    assert counted["libraries"] in (0, 5 if library in (LIBRARY, SLOW, "torch") else 4), counted
    return counted["calls"]


@pytest.mark.parametrize("case", ["batches", "fork"])
def test_copies_are_shared(run, tmp_path, case):
    assert shares(run, tmp_path, case) >= 3


def test_copies_of_a_library_that_loads_slowly(run, tmp_path):
    """The library has looked for the pointers before the loader had closed their page."""
    assert shares(run, tmp_path, "slow", SLOW) >= 3


@pytest.mark.parametrize("case", ["small", "two", "handler", "busy", "refused"])
def test_copies_are_not_shared(run, tmp_path, case):
    """Of small batches, of a thread with two OpenMP threads, where a handler of faults might run on a helper, and of a thread that
    computes much, or was refused often, because each look at its Python frame takes time."""
    assert shares(run, tmp_path, case) == 0


def test_two_copies_of_the_library(run, tmp_path):
    """The first one lacks a pointer. Copies are shared only through a library of which all pointers were replaced."""
    assert shares(run, tmp_path, "copies", LIBRARY.with_suffix(".own.so")) == 0


@pytest.mark.parametrize("linker", ["lld", "gold"])
def test_two_pointers_to_a_function(run, tmp_path, linker):
    library = LIBRARY.with_suffix(f".{linker}.so")
    if not library.exists():
        pytest.skip(f"no {linker}")
    assert shares(run, tmp_path, "batches", library) == 0


@pytest.mark.parametrize("environment", [{"GPUFEED_PARALLEL_PIN": "off"}, {"GPUFEED": "observe"}, {"GPUFEED_STAGE": "off"}],
                         ids=["off", "observe", "unstaged"])
def test_option_off(run, tmp_path, environment):
    assert shares(run, tmp_path, "batches", **environment) == 0


def test_pytorch(run, tmp_path):
    """PyTorch's own copy, from a function that is named like the DataLoader's."""
    found = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
    if subprocess.run([PYTHON, "-c", found], check=False).returncode:
        pytest.skip(f"{PYTHON} has no torch")
    assert shares(run, tmp_path, "batches", "torch") >= 3
