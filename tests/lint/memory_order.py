#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/concurrency.md has an argument for each file that orders memory accesses: memory_order.py SOURCE

The command's own programs are not searched, because they start no thread that shares such words."""
import pathlib
import re
import sys

TITLE = "## Shared variables and memory order"
# Files that the section names for another reason.
EXAMPLES = {"src/base/atomic.h", "src/engine/transfer/copy/classify.c"}
ORDERS = re.compile(r"\bgf_(load|store|add|sub|exchange|cas|fence)_(acquire|release|acq_rel|seq_cst)\(|"
                    r"\bmemory_order_(acquire|release|acq_rel|seq_cst)\b|__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b|\bldar\b")


def orders(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return ORDERS.search(re.sub(r"atomic_signal_fence\(\w+\)", "", text))


def main():
    root = pathlib.Path(sys.argv[1])
    document = (root / "docs" / "concurrency.md").read_text(encoding="utf-8")
    section = document[document.index(TITLE):].split("\n## ")[0]
    named = set(re.findall(r"`(src/[\w./]+)`", section))
    ordering = {str(path.relative_to(root)) for path in (root / "src").rglob("*.[chS]") if orders(path)}
    ordering = {name for name in ordering if not name.startswith("src/tools/")} - {"src/base/atomic.h"}
    bad = [f"{name}: docs/concurrency.md has no argument for its memory order" for name in sorted(ordering - named)]
    bad += [f"docs/concurrency.md: {name} orders no memory accesses" for name in sorted(named - ordering)
            if name not in EXAMPLES]
    print("\n".join(bad) or "ok")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
