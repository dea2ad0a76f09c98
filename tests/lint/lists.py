#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tables of the documents, and the calls that calls.py permits, with the code: lists.py SOURCE PRODUCT...

- docs/concurrency.md lists each fork handler, and what it does before a fork, in the parent and in the child ("-": nothing).
- docs/concurrency.md lists each exit handler. Nothing sets a signal handler or is a constructor.
- docs/concurrency.md has an argument for each file that orders memory accesses. The command's own programs are not searched,
  because they start no thread that shares such words.
- docs/concurrency.md lists each mutex, and both it and docs/safety.md list each named thread.
- docs/environment.md lists each environment variable of other tools that src names.
- docs/top.md and docs/compare.md list the fields of --json, and docs/python.md the functions of the module and of gpufeed.h.
- docs/architecture.md says which private copies of libraries each PRODUCT links."""
import fnmatch
import pathlib
import re
import subprocess
import sys

import calls

PRIVATE = "hwloc", "libnuma"
# A value of CUDA_DEVICE_ORDER; a line of /proc/PID/status; variables that only hwloc's copy sees.
NO_VARIABLES = {"GOMP_parallel", "PCI_BUS_ID", "THP_enabled", "HWLOC_HIDE_ERRORS", "HWLOC_PLUGINS_PATH"}

# Files that the section names for another reason.
EXAMPLES = {"src/base/atomic.h", "src/engine/transfer/copy/classify.c"}
ORDERS = re.compile(r"\bgf_(load|store|add|sub|exchange|cas|fence)_(acquire|release|acq_rel|seq_cst)\(|"
                    r"\bmemory_order_(acquire|release|acq_rel|seq_cst)\b|__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b|\bldar\b")


def source(root):
    """{file: its code without comments}, without the command's programs."""
    found = {}
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = str(path.relative_to(root))
        if not name.startswith("src/tools/"):
            found[name] = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return found


def section(document, title):
    level = title.split(" ")[0]
    text = document[document.index(title + "\n") + len(title):]
    return re.split(rf"\n#{{1,{len(level)}}} ", text)[0]


def rows(text):
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()
            if line.startswith("| ") and not line.startswith("|--")]


def check_forks(code, document):
    table = {re.search(r"`(src/[\w./]+)`", row[0])[1]: row[1:] for row in rows(section(document, "### Fork handlers"))
             if row[0].startswith("`src/")}
    registered = {name: match[1].split(", ") for name, text in code.items()
                  for match in re.finditer(r"\bpthread_atfork\((\w+, \w+, \w+)\)", text)}
    for name, handlers in registered.items():
        if name not in table:
            yield f"docs/concurrency.md does not list the fork handlers of {name}"
            continue
        for when, handler, cell in zip(("before a fork", "in the parent", "in the child"), handlers, table[name]):
            if (handler == "NULL") != (cell == "-"):
                yield f"docs/concurrency.md: {name} registers {handler} {when}, but the cell is: {cell}"
    for name in sorted(table.keys() - registered.keys()):
        yield f"docs/concurrency.md: {name} registers no fork handlers"


def check_exits(code, document):
    listed = {re.search(r"`(src/[\w./]+)`", row[0])[1] for row in rows(section(document, "### Exit handlers")) if row[0].startswith("`src/")}
    found = {name for name, text in code.items() if re.search(r"\b(?:on_exit|atexit|__cxa_atexit)\(|\bdestructor\b", text)}
    yield from (f"docs/concurrency.md and the code disagree on an exit handler in {name}" for name in sorted(listed ^ found))
    for name, text in code.items():
        if re.search(r"\b(?:sigaction|sigset|signal)\((?!signal\))|\((?:__)?constructor(?:__)?\b|SYS_rt_sigaction, \w+, (?!NULL)", text):
            yield f"{name} sets a signal handler or is a constructor, which docs/concurrency.md denies"


def check_locks(code, document):
    text = section(document, "## Locks of the engine") + section(document, "## Locks of the preload library")
    for name, body in code.items():
        if not re.search(r"^\s*(static )?pthread_mutex_t \w+( = PTHREAD_MUTEX_INITIALIZER)?;", body, re.M):
            continue
        if name.replace(".h", ".c") not in text:
            yield f"docs/concurrency.md does not list the lock of {name}"


def check_threads(code, concurrency, safety):
    named = {name for text in code.values() for name in re.findall(r'PR_SET_NAME, "(gpufeed[\w-]*)"', text)}
    for file, text in (("docs/concurrency.md", section(concurrency, "## Contexts")),
                       ("docs/safety.md", section(safety, "### Threads and files"))):
        listed = set(re.findall(r"`(gpufeed(?:-[a-z]+)?)`", "\n".join(row[0] for row in rows(text))))
        for name in sorted(named - listed):
            yield f"{file} does not list the thread {name}"
        for name in sorted(listed - named):
            yield f"{file}: no thread has the name {name}"


def check_variables(root, document):
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.[ch]")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    read = set(re.findall(r'"((?!GPUFEED_)[A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+)"', text))
    read |= set(re.findall(r'(?:gf_launch_variable|gf_env_get)\([^,]*, "((?!GPUFEED_)\w+)"', text))
    listed = re.findall(r"`([^`]+)`", "\n".join(row[0] for row in rows(section(document, "## Variables of other tools"))))
    for name in sorted(read - NO_VARIABLES):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in listed):
            yield f"docs/environment.md does not list the variable {name}"
    for pattern in listed:
        if not fnmatch.filter(read | set(re.findall(r'"([A-Z]+)"', text)), pattern):
            yield f"docs/environment.md: src does not name {pattern}"


def check_orders(root, document):
    named = set(re.findall(r"`(src/[\w./]+)`", section(document, "## Shared variables and memory order")))
    ordering = set()
    for path in (root / "src").rglob("*.[chS]"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        if ORDERS.search(re.sub(r"atomic_signal_fence\(\w+\)", "", text)):
            ordering.add(str(path.relative_to(root)))
    ordering = {name for name in ordering if not name.startswith("src/tools/")} - {"src/base/atomic.h"}
    yield from (f"{name}: docs/concurrency.md has no argument for its memory order" for name in sorted(ordering - named))
    yield from (f"docs/concurrency.md: {name} orders no memory accesses" for name in sorted(named - ordering) if name not in EXAMPLES)


def check_outputs(root):
    for page, file in {"top": "src/tools/top/cmd_top.c", "compare": "src/tools/compare/cmd_compare.c"}.items():
        calls_of = re.findall(r"\bjson_pack\((.*?)\);", (root / file).read_text(encoding="utf-8"), re.S)
        packed = set(re.findall(r'"([a-z_]+)"', "\n".join(calls_of)))
        document = (root / f"docs/{page}.md").read_text(encoding="utf-8")
        table = [row for row in rows(document[document.index("\n| field |"):]) if row[0].startswith("`")]
        first = set(re.findall(r"`(\w+)`", " ".join(row[0] for row in table)))
        named = set(re.findall(r"`(\w+)`", document))
        yield from (f"docs/{page}.md does not list the field {name}" for name in sorted(packed - named))
        yield from (f"docs/{page}.md: --json has no field {name}" for name in sorted(first - packed))


def check_functions(root):
    table = rows((root / "docs/python.md").read_text(encoding="utf-8"))
    listed = re.findall(r"`(\w+)\(", " ".join(row[0] for row in table)), re.findall(r"`(gpufeed_\w+)`", str(table))
    module = (root / "python/gpufeed/__init__.py").read_text(encoding="utf-8")
    exported = re.findall(r'"([a-z]\w*)"', re.search(r"__all__ = \[(.*?)\]", module, re.S)[1])
    header = re.findall(r"^static inline .*\b(gpufeed_\w+)\(", (root / "include/gpufeed.h").read_text(encoding="utf-8"), re.M)
    for names, known in zip((exported, header), listed):
        yield from (f"docs/python.md does not list {name}" for name in sorted(set(names) - set(known)))
        yield from (f"docs/python.md: there is no {name}" for name in sorted(set(known) - set(names)))


def check_links(products, document):
    table = {row[1].strip("`"): row[2] for row in rows(section(document, "## Three products, two runtime contexts"))}
    for path in products:
        found = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[lib(?:gf)?(\w+)\.so", found))
        for name in PRIVATE:
            links = name.removeprefix("lib") in needed
            if links != (name in table[path.name]):
                yield f"docs/architecture.md: {path.name} {'links' if links else 'does not link'} {name}"
        for other in sorted(needed - {"c", "env"} - {name.removeprefix("lib") for name in PRIVATE}):
            yield f"{path.name} links {other}, which tests/lint/lists.py does not know"


def main():
    root, products = pathlib.Path(sys.argv[1]), [pathlib.Path(path) for path in sys.argv[2:]]
    code = source(root)
    concurrency, safety, architecture, environment = (
        (root / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("concurrency", "safety", "architecture", "environment"))
    bad = [*calls.check(root), *calls.check_writes(root), *check_orders(root, concurrency), *check_forks(code, concurrency), *check_exits(code, concurrency), *check_locks(code, concurrency),
           *check_threads(code, concurrency, safety), *check_variables(root, environment), *check_outputs(root),
           *check_functions(root), *check_links(products, architecture)]
    print("\n".join(bad) or "ok")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
