# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the CPU (Debian's 1.13) under the preload, for each start method of workers. Every loss is bitwise
equal. The program has a context of the simulated driver; without CUDA, fork stands for all methods, whose workers never
have CUDA."""

import pathlib
import subprocess

import pytest

from conftest import SIM_DIR

PROGRAM = pathlib.Path(__file__).parent / "torch_program.py"
PYTHON = "/usr/bin/python3"

if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
    pytest.skip("no python3-torch", allow_module_level=True)


def check(run, method, *words, **kw):
    done = run.alike(PYTHON, PROGRAM, method, *words, timeout=180, **kw)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.lstrip("-").startswith("0x1")]) == 16
    assert lines.count("workers [0, 1]") == 2 and lines[-1].startswith("loop ")


def test_training(run):
    check(run, "fork")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_training_with_the_driver_up(run, method):
    if not (SIM_DIR / "libcuda.so.1").exists():
        pytest.skip(f"no simulated driver in {SIM_DIR}")
    check(run, method, "cuda", sim=True)
