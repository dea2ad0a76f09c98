# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the CPU (Debian's 1.13) under the preload, for each start method of workers. Every loss is bitwise
equal to those without the library, which do not depend on the method. The program has a context of the simulated driver;
without CUDA, fork stands for all methods, whose workers never have CUDA."""

import pathlib
import subprocess

import pytest

from conftest import SIM_DIR

PROGRAM = pathlib.Path(__file__).parent / "torch_program.py"
PYTHON = "/usr/bin/python3"

if subprocess.run([PYTHON, "-c", "from importlib.util import find_spec; exit(not find_spec('torch'))"], check=False).returncode:
    pytest.skip("no python3-torch", allow_module_level=True)


@pytest.fixture(scope="module")
def native():
    return {}


def check(run, native, method, *words, **kw):
    """The run without the library is made once: importing torch takes most of the time."""
    if not native:
        native["done"] = run(PYTHON, PROGRAM, "fork", timeout=180, preload=False)
        lines = native["done"].stdout.splitlines()
        assert len([line for line in lines if line.lstrip("-").startswith("0x1")]) == 16
        assert lines.count("workers [0, 1]") == 2 and lines[-1].startswith("loop ")
    done = run(PYTHON, PROGRAM, method, *words, timeout=180, **kw)
    assert (done.returncode, done.stdout) == (0, native["done"].stdout), done.stderr
    assert [line for line in done.stderr.splitlines() if "resource_tracker" not in line] == []


def test_training(run, native):
    check(run, native, "fork")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_training_with_the_driver_up(run, native, method):
    if not (SIM_DIR / "libcuda.so.1").exists():
        pytest.skip(f"no simulated driver in {SIM_DIR}")
    check(run, native, method, "cuda", sim=True)
