#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a cmocka program and prints its TAP. For a skipped test, cmocka 1.1 prints "not ok 3 # SKIP name", which
TAP readers take for a failure. This program prints "ok 3 - name # SKIP reason" instead.

For another processor, Meson names an emulator, which runs the program. tests/aarch64/exceptions.txt lists cases that
may fail then; if they fail, they count as skipped. If it lists * for the program, the program is not run."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "aarch64"))
from exceptions import read_exceptions  # noqa: E402  pylint: disable=wrong-import-position

reason = "no reason given"
emulator = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
exceptions = read_exceptions(pathlib.Path(sys.argv[1]).name.removeprefix("test_")) if emulator else {}
excused = failed = 0
if "*" in exceptions:
    print(f"1..0 # SKIP {exceptions['*']}")
    sys.exit()
if emulator:
    os.environ["GF_UNDER_QEMU"] = "1"
with subprocess.Popen([*emulator, *sys.argv[1:]], stdout=subprocess.PIPE, text=True) as program:
    for line in program.stdout:
        told = re.match(r"# reason: (.*)", line)
        skipped = re.match(r"not ok (\d+) # SKIP (.*)", line)
        if told:
            reason = told.group(1)
            continue
        if skipped:
            line = f"ok {skipped.group(1)} - {skipped.group(2)} # SKIP {reason}\n"
        elif case := re.match(r"not ok (\d+) - (.*)", line):
            failed += 1
            if case.group(2) in exceptions:
                excused += 1
                line = f"ok {case.group(1)} - {case.group(2)} # SKIP {exceptions[case.group(2)]}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
code = program.returncode
if code == failed == excused: # cmocka's exit code is the number of failed cases
    code = 0
sys.exit(code if code >= 0 else 128 - code)
