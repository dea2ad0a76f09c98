#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tables of the documents with the code: lists.py SOURCE PRODUCT...

- docs/concurrency.md lists each fork handler, and what it does before a fork, in the parent and in the child ("-": nothing).
- docs/concurrency.md lists each mutex, and both it and docs/safety.md list each named thread.
- docs/architecture.md says which private copies of libraries each PRODUCT links."""
import pathlib
import re
import subprocess
import sys

PRIVATE = "hwloc", "libnuma"


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
    concurrency, safety, architecture = ((root / "docs" / name).read_text(encoding="utf-8")
                                         for name in ("concurrency.md", "safety.md", "architecture.md"))
    bad = [*check_forks(code, concurrency), *check_locks(code, concurrency), *check_threads(code, concurrency, safety),
           *check_links(products, architecture)]
    print("\n".join(bad) or "ok")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
