#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a cmocka program and prints its TAP. For a skipped test, cmocka 1.1 prints "not ok 3 # SKIP name", which
TAP readers take for a failure. This program prints "ok 3 - name # SKIP reason" instead.

For another processor, Meson names an emulator, which runs the program. tests/aarch64/exceptions.txt lists cases that
may fail then; if they fail, they count as skipped. If it lists * for the program, the program is not run.

A run of all tests starts this program 340 times, so it imports no module that takes long."""

import os
import sys
from _signal import SIGPIPE, SIGXFSZ  # Python ignores them, and programs inherit that


def expected_failures(emulator):
    """Returns {case: reason} under the emulator, which this program then prepares."""
    if not emulator:
        return {}
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "aarch64"))
    from exceptions import read_exceptions  # pylint: disable=import-outside-toplevel
    os.environ["GF_UNDER_QEMU"] = "1"
    return read_exceptions(os.path.basename(sys.argv[1]).removeprefix("test_"))


def start(command):
    """Returns the process id of the command, and its standard output as lines."""
    output, theirs = os.pipe()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)], setsigdef=[SIGPIPE, SIGXFSZ])
    os.close(theirs)
    return pid, open(output, encoding="utf-8", errors="replace")


def main():
    emulator = os.environ.get("MESON_EXE_WRAPPER", "").split()
    exceptions = expected_failures(emulator)
    if "*" in exceptions:
        print(f"1..0 # SKIP {exceptions['*']}")
        return 0
    reason, excused, failed = "no reason given", 0, 0
    pid, lines = start([*emulator, *sys.argv[1:]])
    for line in lines:
        number, _, name = line.removeprefix("not ok ").rstrip("\n").partition(" ")
        if line.startswith("# reason: "):
            reason = line.removeprefix("# reason: ").rstrip("\n")
            continue
        if line.startswith("not ok ") and name.startswith("# SKIP "):
            line = f"ok {number} - {name.removeprefix('# SKIP ')} # SKIP {reason}\n"
        elif line.startswith("not ok ") and name.startswith("- "):
            failed += 1
            if name[2:] in exceptions:
                excused += 1
                line = f"ok {number} - {name[2:]} # SKIP {exceptions[name[2:]]}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == failed == excused:  # cmocka's exit code is the number of failed cases
        code = 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
