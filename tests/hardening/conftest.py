# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library, and compares the runs."""

import importlib.util
import pathlib
import subprocess

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)
PRELOAD, SIM_DIR, SOURCE, BUILD = _preload.PRELOAD, _preload.SIM_DIR, _preload.SOURCE, _preload.BUILD
COMMAND = _preload.COMMAND
compile_c = _preload.compile_c
CUDA = subprocess.run([SOURCE / "scripts" / "cuda-headers.sh"], capture_output=True, text=True,
                      check=True).stdout.strip()

HERE = pathlib.Path(__file__).resolve().parent


class Hardening(_preload.Runner):
    """Runs programs. A program that hangs counts as killed by a signal."""

    def __init__(self):
        super().__init__()
        # Meson sets MALLOC_PERTURB_. glibc would then fill each block, and filling 24 GiB takes a minute.
        self.base.pop("MALLOC_PERTURB_", None)

    def __call__(self, *command, timeout=20, **kw):
        try:
            return super().__call__(*command, timeout=timeout, **kw)
        except subprocess.TimeoutExpired as hung:
            def text(part):
                return part.decode(errors="replace") if isinstance(part, bytes) else part or ""
            return subprocess.CompletedProcess(command, "hung", text(hung.stdout), text(hung.stderr))

    def alike(self, *command, without=None, **kw):
        """Asserts that the program succeeds without the library, and has the same result with it.
        Returns the run with the library. without: environment for the run without it, such as another
        LD_PRELOAD."""
        extra = dict(kw)
        preload = extra.pop("LD_PRELOAD", None)
        bare = self(*command, preload=False, **extra, **(without or {}))
        ours = self(*command, preload=preload is None, **extra,
                    **({"LD_PRELOAD": preload} if preload else {}))
        assert bare.returncode == 0, (bare.returncode, bare.stdout, bare.stderr)
        assert (ours.returncode, ours.stdout, ours.stderr) == \
            (bare.returncode, bare.stdout, bare.stderr)
        return ours


@pytest.fixture
def run():
    return Hardening()


@pytest.fixture(scope="session")
def compile_here(compile_c):
    """compile_here("file.c", *flags, name=...) builds a program or library of this folder, and returns its path."""
    def build(source, *flags, **kw):
        return compile_c((HERE / source).read_text(), *flags, **{"name": source[:-2], **kw})
    return build
