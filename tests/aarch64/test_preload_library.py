# SPDX-License-Identifier: Apache-2.0
"""The cross-built preload library under qemu's user emulation."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build-aarch64"))
PRELOAD = BUILD / "src" / "preload" / "libgpufeed.so"
ROOT = "/usr/aarch64-linux-gnu"

sys.path.insert(0, str(SOURCE / "tests" / "preload"))
import test_malloc  # noqa: E402  what differs from glibc, and the early callers


def run(program, preload=True, timeout=300, **extra):
    command = ["qemu-aarch64", "-L", ROOT]
    if preload:
        extra["LD_PRELOAD"] = PRELOAD
    for key, value in extra.items():
        command += ["-E", f"{key}={value}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED")}
    return subprocess.run([*command, str(program)], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def build(tmp_path):
    def make(text, *flags, name="prog"):
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["aarch64-linux-gnu-gcc", "-D_GNU_SOURCE", "-w", tmp_path / f"{name}.c", "-o",
                        tmp_path / name, *map(str, flags)], check=True)
        return tmp_path / name
    return make


@pytest.fixture(scope="module")
def plain():
    """What the program prints without the library."""
    return run(BUILD / "tests" / "preload" / "malloc_semantics", preload=False)


def test_semantics(plain):
    under = run(BUILD / "tests" / "preload" / "malloc_semantics")
    assert (plain.returncode, under.returncode) == (0, 0), under.stderr
    test_malloc.compare(under.stdout, plain.stdout)


def test_left_to_the_program(plain):
    under = run(BUILD / "tests" / "preload" / "malloc_semantics", GPUFEED="off")
    assert (under.returncode, under.stdout, under.stderr) == (0, plain.stdout, "")


def test_threads_and_forks():
    # qemu 7.2 cannot start threads in a forked child.
    result = run(BUILD / "tests" / "preload" / "malloc_threads", CHILD_THREADS=0, ROUNDS=150, FORKS=60)
    assert result.stdout == "churned\n60 children of 60\n", result.stderr


def test_needs_libc_alone():
    needed = subprocess.run(["aarch64-linux-gnu-readelf", "-d", PRELOAD], capture_output=True, text=True,
                            check=True).stdout
    # On this processor, the loader defines __stack_chk_guard, so the library may need the loader.
    assert set(re.findall(r"NEEDED.*\[(.*)\]", needed)) <= {"libc.so.6", "ld-linux-aarch64.so.1"}


@pytest.mark.parametrize("where", ["library", "program", "constructor"])
def test_before_any_constructor(build, where):
    prog = test_malloc.early_program(build, where)
    under = run(prog)
    assert (under.returncode, under.stdout, under.stderr) == (0, "", "")


def test_a_deepbind_library_meets_one_heap(build):
    library, prog = test_malloc.deepbind_program(build)
    under = run(prog, DEEP=library)
    # Exit code 2: the library removed the flag, because this libc's symbol table shares a segment with code.
    assert under.returncode in (0, 2) and under.stderr == ""


def test_dlsym_keeps_its_caller(build, tmp_path):
    """A library whose function looks up the next one of its name must not find itself."""
    library = build("""#include <dlfcn.h>
        int tool(int depth) {
            int (*next)(int) = dlsym(RTLD_NEXT, "tool");
            return depth > 3 ? -1 : next ? next(depth + 1) : 7; }
        int cuTool(int depth) {
            int (*next)(int) = dlsym(RTLD_NEXT, "cuTool");
            return depth > 3 ? -1 : next ? next(depth + 1) : 9; }
        int hidden_away(void) { return 5; }
        int own(void) { int (*f)(void) = dlsym(RTLD_DEFAULT, "hidden_away"); return f ? f() : -1; }""",
                    "-shared", "-fPIC", name="libself.so")
    prog = build("""#include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            void *h = dlopen(getenv("SELF"), RTLD_NOW);
            printf("%d ", ((int (*)(int))dlsym(h, "tool"))(0));
            printf("%d ", ((int (*)(int))dlsym(h, "cuTool"))(0));
            printf("%d ", ((int (*)(void))dlsym(h, "own"))());
            printf("%d %s\\n", !!dlsym(h, "cuNope"), dlerror() ? "error" : "none"); }""")
    plain, under = run(prog, preload=False, SELF=library), run(prog, SELF=library)
    assert plain.stdout == under.stdout == "7 9 5 0 error\n", under.stderr
