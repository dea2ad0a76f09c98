#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of src: layers.py SOURCE BUILD [--list]

A module is X.c with X.h (X_<arch>.S belongs to X). It depends on another module if it includes that module's header or
uses a symbol that the module defines. The object files of BUILD show the symbols. There are no exceptions to these rules:

- Code of a folder uses its own folder, those of its floor that src/meson.build lists above it, and the floors that FLOORS
  names for its own. Of the contract in src/abi, the command uses only COMMON.
- Modules form no cycle.
- X.c includes X.h first, so that each header compiles alone. A header without a source is compiled alone here.
- A static function's name stands in at most three files, so that a backtrace names the function.

Calls by libc's names (free, munmap, dlsym) are calls of libc's interface, whichever library serves it in the process. So
they are no dependency on the module that exports the name. --list prints all dependencies."""
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys

# Each floor (the first part of a folder's path), and the floors that it may use.
FLOORS = {
    "base": "",
    "config": "base",
    "abi": "base config",
    "os": "base config",
    "preload": "base config abi os",
    "host": "base config abi os",
    "engine": "base config abi os host",
    "tools": "base config abi os host",
}
COMMON = "abi/formats", "abi/reasons.def"  # what the command uses of abi
MOST_FILES = 3  # that have a static function of one name
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
STATIC = re.compile(r"^static (?:inline )?[\w ]*[ *](\w+)\([^;]*$", re.M)
ARCH = re.compile(r"_(x86_64|aarch64)$")


def module_of(path):
    return ARCH.sub("", path.rsplit(".", 1)[0]) if path.endswith((".c", ".h", ".S")) else path


def folder_of(module):
    return module.rsplit("/", 1)[0]


def floor_of(folder):
    return folder.split("/")[0]


def rooms(src):
    """Returns the folders in the order of src/meson.build."""
    text = (src / "meson.build").read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(r"'([a-z_][\w/]*)/(?:\w+\.(?:c|h|def|S))?'", text)))


def graph(src):
    """Returns {folder: the folders that it may use}."""
    listed = rooms(src)
    return {folder: [other for at, other in enumerate(listed) if floor_of(other) in FLOORS.get(floor_of(folder), "").split()
                     or floor_of(other) == floor_of(folder) and at < listed.index(folder)] for folder in listed}


def sources(src):
    for path in sorted(src.rglob("*")):
        if path.suffix in (".c", ".h", ".S", ".def"):
            yield path.relative_to(src).as_posix(), path.read_text(encoding="utf-8")


def included(src):
    for name, text in sources(src):
        for other in INCLUDE.findall(text):
            if (src / other).is_file():
                yield module_of(name), module_of(other), f"includes {other}"


def compiled(src, build):
    """Yields (source below src, object file, command) of each source of the products."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = (build / entry["file"]).resolve()
        if path.is_relative_to(src) and entry["output"].startswith("src/") and "native" not in entry["output"]:
            yield path.relative_to(src).as_posix(), build / entry["output"], entry["command"]


def linked(src, build):
    defined, wanted = {}, []
    objects = {str(made): name for name, made, _ in compiled(src, build) if made.is_file()}
    listed = subprocess.run(["nm", "-P", "-A", *objects], capture_output=True, text=True, check=True).stdout if objects else ""
    for line in listed.splitlines():
        made, symbol, kind = line.split()[:3]  # "file: symbol kind"
        if not symbol.startswith(("gf_", "gpufeed_")):
            continue
        module = module_of(objects[made[:-1]])
        if kind in "Uw":
            wanted.append((module, symbol))
        elif kind.isupper() or kind == "i":
            defined.setdefault(symbol, set()).add(module)
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


def check_layers(src, why):
    allowed, modules, bad = graph(src), {}, []
    for (module, other), reason in sorted(why.items()):
        modules.setdefault(module, set()).add(other)
        here, there = folder_of(module), folder_of(other)
        if here not in allowed:
            bad.append(f"src/meson.build lists no source of src/{here}")
        elif here != there and there not in allowed[here]:
            bad.append(f"{module} {reason} of {there}, which {here} may not use")
        elif there == "abi" and floor_of(here) == "tools" and other not in COMMON:
            bad.append(f"{module} {reason}, but the command may use only formats.h and reasons.def of abi")
    for part in cycles(modules):
        bad.append("modules in a cycle: " + ", ".join(part))
        bad += [f"    {a} {why[a, b]} ({b})" for a in part for b in sorted(modules[a]) if b in part]
    return bad


def check_files(src):
    bad, static = [], collections.defaultdict(set)
    for name, text in sources(src):
        if not name.endswith(".c"):
            continue
        for function in STATIC.findall(text):
            static[function].add(name)
        own = name[:-len("c")] + "h"
        if (src / own).is_file() and INCLUDE.findall(text)[:1] != [own]:
            bad.append(f"src/{name} does not include {own} first")
    bad += [f"static {function} stands in {len(names)} files: {' '.join(sorted(names))}" for function, names in sorted(static.items())
            if len(names) > MOST_FILES]
    return bad


def check_headers(src, build):
    """Compiles each header without a source alone, with the flags of a source that includes it."""
    commands, bad = {}, []
    for name, _, command in compiled(src, build):
        for other in {other for other in INCLUDE.findall((src / name).read_text(encoding="utf-8")) if name.endswith(".c")}:
            commands.setdefault(other, command)
    for name, _ in sources(src):
        if not name.endswith(".h") or (src / name).with_suffix(".c").is_file() or name not in commands:
            continue
        words = shlex.split(commands[name])
        kept = [word for at, word in enumerate(words) if word.startswith(("-I", "-D", "-isystem", "-std")) or words[at - 1] in ("-I", "-isystem")]
        made = subprocess.run(["cc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *kept, "-x", "c", "-"], cwd=build,
                              input=f'#include "{name}"\n', capture_output=True, text=True, check=False)
        if made.returncode:
            bad.append(f"src/{name} does not compile alone:\n{made.stderr}")
    return bad


def main():
    src, build = (pathlib.Path(sys.argv[1]) / "src").resolve(), pathlib.Path(sys.argv[2]).resolve()
    sys.setrecursionlimit(10000)
    why = {}
    for module, other, reason in [*included(src), *linked(src, build)]:
        if module != other:
            why.setdefault((module, other), reason)
    if "--list" in sys.argv:
        for (module, other), reason in sorted(why.items()):
            print(f"{module} -> {other}: {reason}")
        return 0
    bad = check_layers(src, why) + check_files(src) + check_headers(src, build)
    print("\n".join(dict.fromkeys(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
