# SPDX-License-Identifier: Apache-2.0
"""Runs programs on the simulated driver, on a recorded machine with two nodes of one CPU each."""
import importlib.util
import os
import pathlib
import textwrap

import pytest

from conftest import SOURCE

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
NODE0, NODE1 = "0000:07:00.0", "0000:06:00.0"

# Preloaded after the library, it makes the load of the engine last longer than cuInit waits, as on a busy machine.
SLOW_LOAD = """
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
    if (name && strstr(name, "libgpufeed-engine"))
        usleep(2500000);
    return next(name, flags);
}
"""


def load_make():
    spec = importlib.util.spec_from_file_location("make", SOURCE / "tests" / "machines" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    """CPU 0 is node 0 with GPU 1, CPU 1 is node 1 with GPU 0."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs CPUs 0 and 1")
    folder = tmp_path_factory.mktemp("split2")
    split = load_make().Machine(2, 1, 1, 1, 8)
    split.gpu(NODE1, 1)
    split.gpu(NODE0, 0)
    split.write(folder)
    return folder


@pytest.fixture
def feed(run, machine, tmp_path):
    """feed(script, ...) runs a Python script that may use all functions of feeder.py."""
    def call(script, devices=f"{NODE1}", expect=0, taskset="0,1", **env):
        settings = dict(GPUFEED_MACHINE=machine, GPUFEED_BIND="node", GPUFEED_VERBOSE=1,
                        SIM_DEVICES=devices, PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE=1)
        settings.update(env)
        settings = {k: v for k, v in settings.items() if v is not None}
        path = tmp_path / "program.py"
        path.write_text("from feeder import *\nimport feeder\n" + textwrap.dedent(script))
        found = run("taskset", "-c", taskset, PYTHON, path, sim=True, cwd=tmp_path, **settings)
        assert found.returncode == expect, found.stderr
        return found
    return call


def verdict_lines(found):
    return [line for line in found.stderr.splitlines() if line.startswith("gpufeed: GPU")]
