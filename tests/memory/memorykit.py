# SPDX-License-Identifier: Apache-2.0
"""Runs a program of this folder with glibc's malloc, with libjemalloc and with the library, and judges its memory.

MEMORY_FULL=1 runs the sizes of the acceptance run instead of the suite's, which are smaller. The programs are the same.
"""
import functools
import glob
import importlib.util
import json
import os
import pathlib
import signal
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("preload_conftest", HERE.parent / "preload" / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)
PRELOAD, SIM_DIR, SOURCE = _preload.PRELOAD, _preload.SIM_DIR, _preload.SOURCE
assert PRELOAD.exists(), f"build {PRELOAD} first"
PYTHON_PATH = f"{HERE}:/usr/lib/python3/dist-packages"
PYTHON = "/usr/bin/python3"
FULL = os.environ.get("MEMORY_FULL", "") not in ("", "0")
JEMALLOC = (glob.glob("/usr/lib/*/libjemalloc.so.2") + [None])[0]

BASE = {key: value for key, value in os.environ.items()
        if not key.startswith(("GPUFEED", "MALLOC_", "LD_", "MEMORY_ENGINE"))}
NATIVE = {"glibc": {}, "jemalloc": {"LD_PRELOAD": JEMALLOC}}
LIBRARY = {"LD_PRELOAD": str(PRELOAD)}
WITH_ENGINE = {"MEMORY_ENGINE": "1", "LD_LIBRARY_PATH": str(SIM_DIR)}
PROCESSES = {"plain": {}, "engine": WITH_ENGINE}

MORE = 64  # MiB that each peak may exceed its bound by
START_BUDGET = {"plain": 8, "engine": 64}

needs_jemalloc = pytest.mark.skipif(JEMALLOC is None, reason="no libjemalloc.so.2 to compare with")


def scaled(full, suite):
    return full if FULL else suite


class Failed(AssertionError):
    """The program did not end with 0."""


def command(program, *words):
    return [str(word) for word in ([PYTHON, "-S", HERE / program] if str(program).endswith(".py") else [program])
            + list(words)]


def start(program, *words, env=None, prefix=()):
    """Starts the program with this environment beside BASE. No program outlives its test."""
    env = {**BASE, "PYTHONPATH": PYTHON_PATH, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    return subprocess.Popen([*map(str, prefix), *command(program, *words)], env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process, timeout=300):
    """Returns the exit code, the standard output and the standard error."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return "hung", out, err
    return process.returncode, out, err


def result_of(process, timeout=300):
    """The values that the program printed on its last line."""
    code, out, err = finish(process, timeout)
    if code != 0 or not out.strip():
        raise Failed(f"{process.args} ended with {code}\n{out}{err}")
    return json.loads(out.splitlines()[-1])


def measure(program, *words, env=None):
    return result_of(start(program, *words, env=env))


@functools.lru_cache(maxsize=None)
def measure_native(name, program, *words):
    """The simulated driver adds about 1 MiB, so a process with an engine is judged by the same values."""
    return measure(program, *words, env=NATIVE[name])


def natives_until(fits, program, *words):
    """{"glibc": values}, and jemalloc's if glibc's do not permit what the library used: a bound is that of the larger one.
    The acceptance run reports both."""
    native = {}
    for name in NATIVE:
        native[name] = measure_native(name, program, *words)
        if fits(native) and not FULL:
            break
    return native


def peak_bound(native, growth):
    """MiB: 1.25 times glibc's for growth, 1.1 times the larger of glibc's and jemalloc's for other programs."""
    if growth:
        return 1.25 * native["glibc"]["peak"] + MORE
    return 1.1 * max(values["peak"] for values in native.values()) + MORE
