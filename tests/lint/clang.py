#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang's front end on each C file of the build, with the warnings of the build as errors: clang.py SOURCE BUILD; exit
code 77 without clang-tidy, which reports these warnings and starts once for many files. Files that tidy.py checks are left to it.
The suite full builds the tree with clang (build-clang)."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tidy import BATCH, ERROR, GCC_ONLY, once, wanted_of

# gcc's names of warnings, and arguments of malloc that are wrong on purpose (tests/preload/meson.build).
PERMITTED = ["-Wno-unknown-warning-option", "-Wno-builtin-assume-aligned-alignment", "-Wno-non-power-of-two-alignment"]
CHECKS = "-*,clang-diagnostic-*,misc-new-delete-overloads"  # clang-tidy wants a check of its own: this one is for C++


def macros(command):
    return sorted(word for word in shlex.split(command) if word.startswith("-D"))


def main():
    if not shutil.which("clang-tidy"):
        print("clang-tidy is not installed")
        return 77
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    known = once(entries, build)
    tidied = [known[path]["output"] for path in wanted_of(source, known)[0]]
    # Another target that compiles a file with the same macros shows nothing new.
    commands = {(entry["file"], *macros(entry["command"])): entry
                for entry in entries if entry["file"].endswith(".c") and entry["output"] not in tidied}.values()
    for entry in commands:
        for flag in GCC_ONLY:
            entry["command"] = entry["command"].replace(f" {flag}", "")
    (build / "clang").mkdir(exist_ok=True)
    (build / "clang" / "compile_commands.json").write_text(json.dumps([*commands]), encoding="utf-8")
    paths = sorted({(build / entry["file"]).resolve() for entry in commands})  # clang-tidy runs each command of a file

    def check(batch):
        made = subprocess.run(["clang-tidy", "--quiet", f"--checks={CHECKS}", "--header-filter=.*", "--warnings-as-errors=*",
                               *(f"--extra-arg={word}" for word in PERMITTED), "-p", build / "clang", *batch],
                              capture_output=True, text=True, check=False)
        return made.returncode, made.stdout

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(check, [paths[at:at + BATCH] for at in range(0, len(paths), BATCH)]))
    print("".join(text for code, text in results if code))
    print(f"{len(commands)} commands, {sum(len(ERROR.findall(text)) for _, text in results)} errors")
    return 1 if any(code for code, _ in results) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
