#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each header of src compiles alone: headers.py SOURCE BUILD

If a header needs another one before it, sorting the #include lines would break the build. The flags are those of the
folder's sources, from BUILD's compile_commands.json."""
import json
import pathlib
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

KEPT = ("-I", "-D", "-isystem", "-std")


def flags_by_folder(src, build):
    """Returns {folder below src: the flags of one of its sources}."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = (build / entry["file"]).resolve()
        if not path.is_relative_to(src) or path.suffix != ".c":
            continue
        words, kept = shlex.split(entry["command"]), []
        for at, word in enumerate(words):
            if word == "-isystem":
                kept += [word, words[at + 1]]
            elif word.startswith(KEPT) and word != "-isystem":
                kept.append(word)
        found.setdefault(path.parent, kept)
    return found


def main():
    src, build = (pathlib.Path(sys.argv[1]) / "src").resolve(), pathlib.Path(sys.argv[2]).resolve()
    flags = flags_by_folder(src, build)
    with_driver = next((f for f in flags.values() if "-isystem" in f), [])  # src/abi has no sources of its own

    def check(header):
        made = subprocess.run(["cc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags.get(header.parent, with_driver),
                               "-x", "c", "-"], input=f'#include "{header.relative_to(src)}"\n', cwd=build,
                              capture_output=True, text=True, check=False)
        return made.returncode, made.stderr

    headers = sorted(src.rglob("*.h"))
    with ThreadPoolExecutor(2) as pool:
        results = list(zip(headers, pool.map(check, headers)))
    for header, (code, errors) in results:
        if code:
            print(f"{header.relative_to(src)}:\n{errors}")
    return 1 if any(code for _, (code, _) in results) or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
