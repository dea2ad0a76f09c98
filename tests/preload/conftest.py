# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library. Each test_*.py here is one meson test."""

import fcntl
import os
import pathlib
import subprocess
import tempfile

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
PRELOAD = BUILD / "src" / "preload" / "libgpufeed.so"
ENGINE_DIR = BUILD / "src" / "engine"
COMMAND = BUILD / "src" / "cli" / "gpufeed"
SIM_DIR = BUILD / "tests" / "sim"
APPS = BUILD / "tests" / "preload"


class Runner:
    """Starts programs in a clean environment: no GPUFEED_*, no inherited preload."""

    def __init__(self):
        self.base = {k: v for k, v in os.environ.items()
                     if not k.startswith("GPUFEED") and k not in ("LD_PRELOAD", "MALLOC_CONF")}

    def env(self, preload=True, sim=False, **extra):
        env = dict(self.base)
        if preload:
            env["LD_PRELOAD"] = str(PRELOAD)
        if sim:
            env["LD_LIBRARY_PATH"] = str(SIM_DIR)
        env.update({k: str(v) for k, v in extra.items()})
        return env

    def __call__(self, *command, preload=True, sim=False, timeout=180, input=None, cwd=None, **extra):
        """Runs the command to its end; returns CompletedProcess with text output. Keywords are
        added to the environment."""
        return subprocess.run([str(c) for c in command], env=self.env(preload, sim, **extra),
                              stdin=subprocess.DEVNULL if input is None else None, input=input,
                              capture_output=True, text=True, timeout=timeout, cwd=cwd, check=False)

    def both(self, *command, **kw):
        """Runs the same command without and with the library."""
        kw.pop("preload", None)
        return self(*command, preload=False, **kw), self(*command, preload=True, **kw)


@pytest.fixture
def run():
    return Runner()


@pytest.fixture(scope="module")
def installs():
    """Keeps other tests from installing meanwhile: the build folder records only what was installed
    last, and `ninja uninstall` removes that."""
    with (BUILD / "meson-logs" / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def compile_c():
    """compile_c(text, *flags, name="prog", cc="cc") -> path of a program or library built from C.
    """
    with tempfile.TemporaryDirectory(prefix="gpufeed-test-") as folder:
        def build(text, *flags, name="prog", cc="cc"):
            source = pathlib.Path(folder) / f"{name}.c"
            source.write_text(text)
            target = pathlib.Path(folder) / name
            subprocess.run([cc, "-D_GNU_SOURCE", "-w", str(source), "-o", str(target), *flags],
                           check=True)
            return target
        yield build
