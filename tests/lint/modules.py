#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which module uses which: modules.py SOURCE BUILD [--list]

A module is X.c with X.h (X_<arch>.S belongs to X). It depends on another module if it includes that
module's header or uses a symbol that the module defines. The object files of BUILD show the
symbols. There are no exceptions to these rules. A folder depends only on itself and on the folders that GRAPH names
for it. Neither modules nor folders form a cycle. A folder has at most 20 modules. Its meson.build names no file of
another folder by '../'.

Calls by libc's names (free, munmap, dlsym) are calls of libc's interface, whichever library serves
it in the process. So they are no dependency on the module that exports the name. --list prints all
dependencies."""
import collections
import pathlib
import re
import subprocess
import sys

HEAP = "preload/heap/jemalloc preload/heap/timing preload/heap/pages preload/heap/callouts"
HOOK = "base base/loader config abi os preload/heap preload/trace preload/malloc"
ENGINE = "base config abi os engine/machine engine/place"
ROOMS = "engine/transfer/setup engine/transfer/pool engine/transfer/memory engine/transfer/context"

# Each folder, and the folders that it may use.
GRAPH = {
    "base": "",
    "base/files": "base",
    "base/loader": "base",
    "base/pystack": "base",
    "config": "base",
    "abi": "base config",
    "os": "base base/files config",
    "preload/heap/jemalloc": "base",
    "preload/heap/timing": "base",
    "preload/heap/pages": "base config abi os preload/heap/jemalloc preload/heap/timing",
    "preload/heap/callouts": "base base/loader config abi os preload/heap/jemalloc preload/heap/timing preload/heap/pages",
    "preload/heap": f"base base/loader config abi {HEAP}",
    "preload/trace/unwind": "base base/loader os",
    "preload/trace/python": "base config base/loader base/pystack abi os preload/trace/unwind",
    "preload/trace": "base base/files base/pystack config abi os preload/heap/timing preload/trace/unwind preload/trace/python",
    "preload/malloc": f"base base/loader config abi os {HEAP} preload/heap preload/trace",
    "preload/hook": HOOK,
    "preload/hook/originals": f"{HOOK} preload/hook",
    "preload/hook/attach": f"{HOOK} preload/trace/python preload/hook preload/hook/originals",
    "preload/hook/cuda": f"{HOOK} preload/hook preload/hook/originals preload/hook/attach",
    "preload/hook/libc": f"{HOOK} preload/hook preload/hook/originals preload/hook/attach",
    "preload/hook/resolve": f"{HOOK} preload/hook preload/hook/originals preload/hook/cuda",
    "preload/hook/entry": f"{HOOK} preload/hook preload/hook/originals preload/hook/libc preload/hook/resolve",
    "preload": "base config abi preload/trace preload/hook preload/hook/attach",
    "engine/machine/private": "base",
    "engine/machine": "base base/files config abi os engine/machine/private",
    "engine/place": "base config abi os engine/machine",
    "engine/transfer/setup": ENGINE,
    "engine/transfer/pool": f"{ENGINE} engine/transfer/setup",
    "engine/transfer/memory": f"{ENGINE} engine/transfer/setup",
    "engine/transfer/context": f"{ENGINE} engine/transfer/setup engine/transfer/pool",
    "engine/transfer/stats": f"{ENGINE} {ROOMS}",
    "engine/transfer/staging": f"{ENGINE} {ROOMS} engine/transfer/stats",
    "engine/transfer/pinned": f"{ENGINE} {ROOMS} engine/transfer/stats",
    "engine/transfer/shm": f"{ENGINE} {ROOMS} engine/transfer/stats",
    "engine/transfer/readahead": f"{ENGINE} {ROOMS} engine/transfer/stats",
    "engine/transfer/imports": f"{ENGINE} base/loader {ROOMS} engine/transfer/stats engine/transfer/readahead",
    "engine/transfer/copy": f"{ENGINE} {ROOMS} engine/transfer/stats engine/transfer/staging"
                            " engine/transfer/readahead",
    "engine/transfer/api": f"{ENGINE} {ROOMS} engine/transfer/stats engine/transfer/staging engine/transfer/pinned"
                           " engine/transfer/shm engine/transfer/readahead engine/transfer/imports engine/transfer/copy",
    "engine/gputime": "base base/pystack config abi os",
    "engine/report": f"{ENGINE} base/loader {ROOMS} engine/transfer/stats engine/gputime",
    "engine/process": f"{ENGINE} base/files engine/transfer/setup engine/transfer/stats engine/transfer/api"
                      " engine/gputime engine/report",
    "cli/common": "base base/files",
    "cli/topo": "base base/files config os engine/machine engine/place cli/common",
    "cli/run": "base base/files config os engine/machine engine/place cli/common cli/topo",
    "cli/doctor": "base config os engine/machine engine/place cli/common cli/topo",
    "cli/report/input": "base base/files cli/common",
    "cli/report/sums": "base cli/common cli/report/input",
    "cli/report/output": "base cli/common cli/report/input cli/report/sums",
    "cli/report/files": "base base/files cli/common cli/report/input cli/report/sums cli/report/output",
    "cli/report": "base base/files cli/common cli/report/input cli/report/sums cli/report/output cli/report/files",
    "cli/compare": "base base/files config os cli/common cli/run",
    "cli/stacks": "base cli/common cli/report/input cli/report/output cli/top",
    "stacks": "base base/files base/pystack os",
    "cli/top": "base base/files os cli/common cli/report/input",
    "cli": "base config os cli/common cli/stacks cli/topo cli/run cli/doctor cli/report cli/compare cli/top",
}

LARGEST = 20  # modules of a folder
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ARCH = re.compile(r"_(x86_64|aarch64)$")


def module_of(path):
    return ARCH.sub("", path.rsplit(".", 1)[0]) if path.endswith((".c", ".h", ".S")) else path


def folder_of(module):
    return module.rsplit("/", 1)[0]


def sizes(src):
    """Returns {folder: the number of its modules}."""
    modules = {module_of(path.relative_to(src).as_posix()) for path in src.rglob("*") if path.suffix in (".c", ".h", ".S")}
    return collections.Counter(folder_of(module) for module in modules)


def included(src):
    for path in sorted(src.rglob("*")):
        if path.suffix not in (".c", ".h", ".S", ".def"):
            continue
        name = path.relative_to(src).as_posix()
        for other in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if (src / other).is_file():
                yield module_of(name), module_of(other), f"includes {other}"


def linked(src, build):
    defined, wanted = {}, []
    for path in sorted((build / "src").rglob("*.o")):
        name = path.relative_to(build / "src").as_posix()
        name = re.sub(r"/[^/]+\.p/", "/", name)[: -len(".o")]
        if not (src / name).is_file() or "native" in path.as_posix():
            continue
        listed = subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            symbol, kind = line.split()[:2]
            if not symbol.startswith(("gf_", "gpufeed_")):
                continue
            if kind in "Uw":
                wanted.append((module_of(name), symbol))
            elif kind.isupper() or kind == "i":
                defined.setdefault(symbol, set()).add(module_of(name))
    for module, symbol in wanted:
        for other in defined.get(symbol, ()):
            yield module, other, f"uses {symbol}"


def cycles(edges):
    """Returns the strongly connected components of more than one node, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def main():
    src, build = pathlib.Path(sys.argv[1]) / "src", pathlib.Path(sys.argv[2])
    sys.setrecursionlimit(10000)
    why = {}
    for module, other, reason in [*included(src), *linked(src, build)]:
        if module != other:
            why.setdefault((module, other), reason)
    if "--list" in sys.argv:
        for (module, other), reason in sorted(why.items()):
            print(f"{module} -> {other}: {reason}")
        return 0
    bad, modules, folders = [], {}, {}
    for (module, other), reason in sorted(why.items()):
        modules.setdefault(module, set()).add(other)
        here, there = folder_of(module), folder_of(other)
        if here != there:
            folders.setdefault(here, set()).add(there)
        if here not in GRAPH:
            bad.append(f"src/{here} is not in the graph of folders")
        elif here != there and there not in GRAPH[here].split():
            bad.append(f"{module} {reason} of {there}, which {here} may not use")
    for part in cycles(modules):
        bad.append("modules in a cycle: " + ", ".join(part))
        bad += [f"    {a} {why[a, b]} ({b})" for a in part for b in sorted(modules[a]) if b in part]
    for folder, count in sorted(sizes(src).items()):
        if count > LARGEST:
            bad.append(f"src/{folder} has {count} modules, more than {LARGEST}")
    bad += [f"{path.relative_to(src.parent)} reaches into another folder by '../'"
            for path in sorted(src.rglob("meson.build")) if "'../" in path.read_text(encoding="utf-8")]
    bad += ["folders in a cycle: " + ", ".join(part) for part in cycles(folders)]
    print("\n".join(dict.fromkeys(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
