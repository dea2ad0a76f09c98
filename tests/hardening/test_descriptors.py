# SPDX-License-Identifier: Apache-2.0
"""A program takes fixed descriptor numbers by dup2, which the library must neither use nor close."""

import os

import pytest

from conftest import CUDA, SIM_DIR

EAGER = {"GPUFEED_STAGE_MIN": "65536", "GPUFEED_STAGE_THREADS": "4", "GPUFEED_STALL_US": "5"}
SECONDS, TURNS = os.environ.get("NUMBERS_SECONDS", "1"), os.environ.get("NUMBERS_TURNS", "1")


@pytest.fixture(scope="session")
def numbers(compile_here):
    return compile_here("numbers.c", "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1")


@pytest.mark.parametrize("logs", [False, True], ids=["no log", "log"])
@pytest.mark.parametrize("what", ["heap", "context"])
def test_numbers_stay_the_programs(run, numbers, tmp_path, what, logs):
    log = tmp_path / "log"
    done = run(numbers, SECONDS, TURNS, what, sim=True, timeout=900, GPUFEED_LOG=log if logs else "off", **EAGER)
    assert (done.returncode, done.stdout) == (0, "0 numbers were closed, 0 were in use\n"), done
    assert log.exists() == logs
