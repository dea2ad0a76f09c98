#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang's front end on each C file of the build, with the warnings of the build as errors: clang.py SOURCE BUILD; exit
code 77 without clang. Files that tidy.py checks are left to it, because clang-tidy reports these warnings, too. The suite
full builds the tree with clang (build-clang)."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tidy import GCC_ONLY, once, wanted_of

OUTPUT = ("-o", "-MQ", "-MF")  # each has a value
# gcc's names of warnings, and arguments of malloc that are wrong on purpose (tests/preload/meson.build).
PERMITTED = ["-Wno-unknown-warning-option", "-Wno-builtin-assume-aligned-alignment", "-Wno-non-power-of-two-alignment"]


def front_end(command):
    """Returns a compiler's command as one of clang's front end."""
    words = shlex.split(command)
    while not words[0].endswith("cc"):  # ccache
        words = words[1:]
    kept, skip = ["clang", "-fsyntax-only", "-Werror"], False
    for word in words[1:]:
        if not skip and word not in OUTPUT and word not in (*GCC_ONLY, "-c", "-MD"):
            kept.append(word)
        skip = not skip and word in OUTPUT
    return kept + PERMITTED


def macros(command):
    return sorted(word for word in shlex.split(command) if word.startswith("-D"))


def main():
    if not shutil.which("clang"):
        print("clang is not installed")
        return 77
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    known = once(entries, build)
    tidied = [known[path]["output"] for path in wanted_of(source, known)[0]] if shutil.which("clang-tidy") else []
    # Another target that compiles a file with the same macros shows nothing new.
    commands = {(entry["file"], *macros(entry["command"])): front_end(entry["command"])
                for entry in entries if entry["file"].endswith(".c") and entry["output"] not in tidied}.values()

    def check(command):
        made = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
        return made.returncode, made.stderr

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(check, commands))
    print("".join(text for code, text in results if code))
    print(f"{len(results)} commands, {sum(code != 0 for code, _ in results)} with errors")
    return 1 if any(code for code, _ in results) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
