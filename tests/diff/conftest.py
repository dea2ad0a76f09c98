# SPDX-License-Identifier: Apache-2.0
"""Programs that must behave the same with and without the library, on the simulated driver."""

import importlib.util
import os
import pathlib
import subprocess

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)
SOURCE = _preload.SOURCE
BUILD, SIM_DIR, PRELOAD, ENGINE_DIR = _preload.BUILD, _preload.SIM_DIR, _preload.PRELOAD, _preload.ENGINE_DIR
Runner, run, compile_c = _preload.Runner, _preload.run, _preload.compile_c
LONG, rounds = _preload.LONG, _preload.rounds
pytest_collection_modifyitems = _preload.pytest_collection_modifyitems
APPS = BUILD / "tests" / "diff"

# For long runs: GF_DIFF_CALLS=100000 GF_DIFF_SEEDS=1-50
CALLS = int(os.environ.get("GF_DIFF_CALLS", rounds(5000, 1500)))


def seeds():
    """Returns the seeds that GF_DIFF_SEEDS names, or the few seeds that CI runs."""
    first, _, last = os.environ.get("GF_DIFF_SEEDS", "").partition("-")
    return range(int(first), int(last or first) + 1) if first else range(0)


def first_difference(one, other):
    """Returns the first lines that differ, with a few lines before them."""
    ours, theirs = one.splitlines(), other.splitlines()
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return "\n".join([*ours[max(0, i - 12):i], f"- {a}", f"+ {b}"])
    return f"{len(ours)} and {len(theirs)} lines; the last: {(ours or [''])[-1]} | {(theirs or [''])[-1]}"


@pytest.fixture
def diff(run):
    """diff(*arguments, preload=..., **environment) -> transcript of the random program."""
    def go(*arguments, preload=True, calls=CALLS, **environment):
        done = run(APPS / "diff", "--calls", calls, *arguments, preload=preload, sim=True,
                   timeout=120 + calls / 50, **environment)
        assert done.returncode == 0, (done.returncode, done.stdout[-400:], done.stderr[-400:])
        return done.stdout
    return go


@pytest.fixture(scope="session")
def front(compile_c, tmp_path_factory):
    """front(name) -> a folder whose libcuda.so.1 is tests/sim/NAME.c, in front of the simulated driver."""
    cuda = subprocess.run([SOURCE / "scripts" / "cuda-headers.sh"], capture_output=True, text=True,
                          check=True).stdout.strip()
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            built = compile_c((SOURCE / "tests" / "sim" / f"{name}.c").read_text(), "-shared", "-fPIC", "-O1",
                              "-pthread", f"-I{SOURCE / 'tests' / 'sim'}", "-isystem", cuda, name=f"{name}.so")
            (made[name] / "libcuda.so.1").symlink_to(built)
            (made[name] / "sim.so").symlink_to(SIM_DIR / "libcuda.so.1")
        return made[name]
    return make
