#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy on src with .clang-tidy's checks: tidy.py SOURCE BUILD [FILE...]; exit code 77 without clang-tidy.

Without FILE, it checks the files that differ from the commit at which this branch left main, or else from the last
tag, or else from 50 commits ago, and those that include a header that differs. It checks all files if there is no such
commit, if the checks themselves have changed on a branch or since a tag, and if GF_TIDY_NODES is set, as before a release.

The analyzer follows at most GF_TIDY_NODES states of each function: by default 50000 in the files that have changed on
a branch or since a tag, and otherwise 2000, which take half of the time. clang's own limit, 225000, is set before a
release."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

NODES_CHANGED, NODES_ALL = 50000, 2000
RECENT = 50  # commits
GCC_ONLY = ("-fno-tree-loop-distribute-patterns", "-gno-variable-location-views")
BATCH = 8  # files that one process checks: starting clang-tidy takes as long as reading a small file
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)
ERROR = re.compile(r"(?:^|\s)error: ", re.M)


def once(commands, build):
    """Returns one command for each file. clang-tidy would check a file once for each of its commands, but the tests'
    builds of a file, such as the mutants, differ from the installed one only by what the tests add."""
    kept = {}
    for entry in sorted(commands, key=lambda entry: not entry["output"].startswith("src/")):
        kept.setdefault((build / entry["file"]).resolve(), entry)
    return kept


def git(source, *words):
    made = subprocess.run(["git", "-C", source, *words], capture_output=True, text=True, check=False)
    return made.stdout.split() if made.returncode == 0 else []


def base_of(source):
    """Returns the commit with which the tree is compared, or None, and the analyzer's limit."""
    head = git(source, "rev-parse", "HEAD")
    for words in (("merge-base", "HEAD", "main"), ("merge-base", "HEAD", "origin/main"), ("describe", "--tags", "--abbrev=0")):
        found = git(source, *words)
        commit = git(source, "rev-parse", found[0] + "^{commit}") if found else []
        if commit and commit != head:
            return commit[0], NODES_CHANGED
    recent = git(source, "rev-list", "--max-count=1", f"--skip={RECENT}", "HEAD")
    return recent[0] if recent else None, NODES_ALL


def affected(source, paths):
    """Returns those of the files of src that have changed, or that include a changed header, and the analyzer's limit."""
    base, nodes = base_of(source)
    if not base or "GF_TIDY_NODES" in os.environ:
        return paths, NODES_ALL
    changed = {*git(source, "diff", "--name-only", base, "--"), *git(source, "ls-files", "--others", "--exclude-standard")}
    if nodes == NODES_CHANGED and changed & {".clang-tidy", "tests/lint/tidy.py"}:
        return paths, NODES_ALL
    headers = {name.removeprefix("src/") for name in changed if name.endswith((".h", ".def"))}
    return [path for path in paths if path.relative_to(source).as_posix() in changed
            or headers & set(INCLUDE.findall(path.read_text(encoding="utf-8")))], nodes


def wanted_of(source, known):
    """Returns what affected does for the C files of src."""
    return affected(source, sorted(path for path in known if path.is_relative_to(source / "src") and path.suffix == ".c"))


def main():
    if not shutil.which("clang-tidy"):
        print("clang-tidy is not installed")
        return 77
    source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    known = once(commands, build)
    wanted, nodes = wanted_of(source, known)
    for entry in known.values():
        for flag in GCC_ONLY:
            entry["command"] = entry["command"].replace(f" {flag}", "")
    (build / "tidy").mkdir(exist_ok=True)
    (build / "tidy" / "compile_commands.json").write_text(json.dumps([*known.values()]), encoding="utf-8")
    if len(sys.argv) > 3:
        wanted, nodes = [pathlib.Path(name).resolve() for name in sys.argv[3:]], NODES_CHANGED
    nodes = os.environ.get("GF_TIDY_NODES", nodes)

    def check(paths):
        limit = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={nodes}")]
        made = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", *limit, "-p", build / "tidy", *paths],
                              capture_output=True, text=True, check=False)
        return made.returncode, made.stdout

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(check, [wanted[at:at + BATCH] for at in range(0, len(wanted), BATCH)]))
    for code, text in results:
        if code:
            print(text)
    print(f"{len(wanted)} files, at most {nodes} states of a function; {sum(len(ERROR.findall(text)) for _, text in results)} findings")
    return 1 if any(code for code, _ in results) or not known else 0


if __name__ == "__main__":
    sys.exit(main())
