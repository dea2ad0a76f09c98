# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library, and compares output, exit code, threads and files."""

import collections
import importlib.util
import os
import pathlib
import re
import shutil
import tempfile

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)
COMMAND, SIM_DIR = _preload.COMMAND, _preload.SIM_DIR
compile_c = _preload.compile_c
PRELOAD = pathlib.Path(os.environ.get("GF_PRELOAD", _preload.PRELOAD))

# Replacements for text that differs between any two runs of one program. They are applied in this order.
CANONICAL = (
    (re.compile(r"/tmp/gpufeed-compat-\w+"), "TMP"),
    (re.compile(r"0x[0-9a-f]{6,16}\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{12,16}\b"), "ADDRESS"),
    (re.compile(r"(?<=/proc/)\d+"), "PID"),
    (re.compile(r"(?<=/task/)\d+"), "TID"),
    (re.compile(r"(?<===)\d+(?===)"), "PID"),          # valgrind
    (re.compile(r"(?<=\bprocess )\d+"), "PID"),        # gdb, strace
    (re.compile(r"(?<=\bpid )\d+"), "PID"),
    (re.compile(r"\(LWP \d+\)"), "(LWP TID)"),
    (re.compile(r"\[pid +\d+\]"), "[pid PID]"),
    (re.compile(r"hsperfdata_\w+/\d+"), "hsperfdata/PID"),
    (re.compile(r"(?<=/tmp/)cc\w{6}\b"), "ccXXXXXX"),  # gcc's temporary files
    (re.compile(r"(?<=sh-thd\.)\w+"), "XXXXXX"),       # bash's here-documents
)


AGAIN = 5  # further runs without the library, if the first one differs

TRACED = ("open", "openat", "openat2", "creat", "readlink", "readlinkat", "clone", "clone3", "fork",
          "vfork")


def canonical(text):
    for pattern, word in CANONICAL:
        text = pattern.sub(word, text)
    return text


class Compat(_preload.Runner):
    """Runs programs under a copy of the preload library that every user may read, and under strace."""

    def __init__(self, preload, folder):
        super().__init__()
        self.preload, self.folder = preload, folder
        for name in [k for k in self.base if k.startswith(("PYENV", "MALLOC", "LD_"))]:
            del self.base[name]
        self.base.update(LC_ALL="C.UTF-8", HOME=str(folder), PATH="/usr/sbin:/usr/bin:/sbin:/bin")

    def env(self, preload=True, sim=False, **extra):
        env = super().env(False, sim, **extra)
        if preload:
            env["LD_PRELOAD"] = str(self.preload) if preload is True else preload
        return env

    def alike(self, *command, **kw):
        """Asserts that exit code, output and errors are as without the library, and returns the run with it. On a
        busy machine some programs differ between runs, so one of a few runs without the library must agree. Lines of
        Python's resource tracker are ignored: it outlives its program, and on a busy machine it warns about resources
        that the program is freeing."""
        def lines(text):
            return [x for x in canonical(text).splitlines() if "resource_tracker" not in x]

        def seen(done):
            return done.returncode, lines(done.stdout), lines(done.stderr)

        bare, ours = self.both(*command, **kw)
        for _ in range(AGAIN):
            if seen(bare) == seen(ours):
                break
            bare = self(*command, **{**kw, "preload": False})
        assert lines(ours.stderr) == lines(bare.stderr)
        assert lines(ours.stdout) == lines(bare.stdout)
        assert ours.returncode == bare.returncode
        return bare

    def traced(self, *command, preload, timeout=120, **kw):
        """Counts the canonical opens, readlinks and clones of the command and all its descendants.
        """
        log = self.folder / "strace"
        options = ["-f", "-qq", "-o", log, "-e", "signal=none", "-e", "trace=" + ",".join(TRACED)]
        env = [x for k, v in kw.items() for x in ("-E", f"{k}={v}")]
        if preload:
            env += ["-E", f"LD_PRELOAD={self.preload}"]
        done = self("strace", *options, *env, "--", *command, preload=False, timeout=timeout)
        return done, count_calls(log.read_text(errors="replace"))


CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
# A signal interrupted the call before it had any effect, so the kernel restarts the call. strace prints such a call
# on one line, or on two.
RESTARTED = re.compile(r"^(\d+) +(?:(?:clone3?|v?fork)\(|<\.\.\. (?:clone3?|v?fork) resumed>).* = \? ERESTART")
BIRTHS = ("clone", "clone3", "fork", "vfork")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def count_calls(log):
    """Counts "open PATH", "readlink PATH", "thread" and "process" in an strace log."""
    calls, last = collections.Counter(), {}
    for line in log.splitlines():
        match, again = CALL.match(line), RESTARTED.match(line)
        if match and match[2] in BIRTHS:
            last[match[1]] = "thread" if "CLONE_THREAD" in match[3] else "process"
            calls[last[match[1]]] += 1
        if again:
            calls[last[again[1]]] -= 1
        if not match or match[2] in BIRTHS:
            continue  # second lines of calls, and exits
        _, call, rest = match.groups()
        path = QUOTED.search(rest)
        kind = "readlink" if call.startswith("readlink") else "open"
        calls[f"{kind} {canonical(path.group(1)) if path else rest}"] += 1
    return calls


# jemalloc reads these at its first malloc.
PROBES = frozenset((
    "readlink /etc/malloc.conf",
    "open /proc/sys/vm/overcommit_memory",
    "open /sys/kernel/mm/transparent_hugepage/enabled",
))
# glibc's malloc reads these when a process has threads or returns memory to the kernel. jemalloc does not read them.
GLIBC_PROBES = frozenset((
    "open /sys/devices/system/cpu/online",
    "open /proc/sys/vm/overcommit_memory",
))


@pytest.fixture(scope="session")
def folder():
    """A scratch folder that an ordinary user may read, too."""
    with tempfile.TemporaryDirectory(prefix="gpufeed-compat-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


@pytest.fixture(scope="session")
def run(folder):
    """The preload library and the files that it opens, in the folders of the build."""
    top = PRELOAD.parents[1]
    for file in (PRELOAD, *top.glob("engine/*.so"), *top.glob("host/*.so")):
        copy = folder / file.relative_to(top)
        copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copy(file, copy)
        os.chmod(copy, 0o755)
    return Compat(folder / PRELOAD.relative_to(top), folder)


def need(program):
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin")
    if path is None:
        pytest.skip(f"no {program} on this machine")
    return path
