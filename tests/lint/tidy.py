#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy on src with .clang-tidy's checks: tidy.py SOURCE BUILD [FILE...]; exit code 77 without clang-tidy.

The analyzer follows at most GF_TIDY_NODES states of each function. clang's own limit, 225000, takes
twice the time; the release script sets it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


NODES = os.environ.get("GF_TIDY_NODES", "50000")
GCC_ONLY = ("-fno-tree-loop-distribute-patterns",)


def once(commands, build):
    """Returns one command for each file. clang-tidy would check a file once for each of its commands, but the tests'
    builds of a file, such as the mutants, differ from the installed one only by what the tests add."""
    kept = {}
    for entry in sorted(commands, key=lambda entry: not entry["output"].startswith("src/")):
        kept.setdefault((build / entry["file"]).resolve(), entry)
    return kept


def main():
    if not shutil.which("clang-tidy"):
        print("clang-tidy is not installed")
        return 77
    src, build = (pathlib.Path(sys.argv[1]) / "src").resolve(), pathlib.Path(sys.argv[2]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    known = once(commands, build)
    for entry in known.values():
        for flag in GCC_ONLY:
            entry["command"] = entry["command"].replace(f" {flag}", "")
    (build / "tidy").mkdir(exist_ok=True)
    (build / "tidy" / "compile_commands.json").write_text(json.dumps([*known.values()]), encoding="utf-8")
    wanted = [pathlib.Path(name).resolve() for name in sys.argv[3:]] or sorted(
        path for path in known if path.is_relative_to(src) and path.suffix == ".c")

    def check(path):
        limit = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")]
        made = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", *limit, "-p", build / "tidy", path],
                              capture_output=True, text=True, check=False)
        return made.returncode, made.stdout

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(check, wanted))
    for code, text in results:
        if code:
            print(text)
    print(f"{len(wanted)} files, {sum(code != 0 for code, _ in results)} with findings")
    return 1 if any(code for code, _ in results) or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
