# SPDX-License-Identifier: Apache-2.0
"""Forks while other threads read lines and flush all FILEs, for SOAK_MINUTES (10 before a release), with and without a
context. A process without progress ends itself. The short version is tests/hardening/test_fork_streams.py."""

import importlib.util
import os
import pathlib

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)

PROGRAM = _preload.BUILD / "tests" / "hardening" / "fork_streams"
SECONDS = float(os.environ.get("SOAK_MINUTES", "2")) * 60


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_forks_beside_lines_and_flushes(gpu):
    done = _preload.Runner()(PROGRAM, "soak", int(SECONDS), *gpu, sim=True, timeout=SECONDS + 300)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1:], done.stderr) == (0, ["forked"], ""), done
    assert int(lines[0].split()[0]) > SECONDS, lines
