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


bare_runs = {}


def stamped(text):
    """Returns the text with the time of each file that it names, because a test may build other programs by one name."""
    return text, *(_preload.when_changed(part) for part in text.split(":"))


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

    def bare(self, *command, **kw):
        """Runs the program without the library, once for each environment: the library's options change nothing there."""
        kw = {key: str(value) if key.isupper() else value for key, value in kw.items() if not key.startswith("GPUFEED")}
        key = *(stamped(str(word)) for word in command), *((name, stamped(str(kw[name]))) for name in sorted(kw))
        if key not in bare_runs:
            bare_runs[key] = self(*command, preload=False, **kw)
        return bare_runs[key]

    def alike(self, *command, without=None, **kw):
        """Asserts that the program succeeds without the library, and has the same result with it.
        Returns the run with the library. without: environment for the run without it, such as another
        LD_PRELOAD."""
        extra = dict(kw)
        preload = extra.pop("LD_PRELOAD", None)
        bare = self.bare(*command, **extra, **(without or {}))
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
