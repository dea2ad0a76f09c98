#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links between the documents lead somewhere: each file that is named is there, and each heading."""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/.-])(?:docs|src|tests|bench|scripts|examples|include)/[\w./-]*\w(?![\w./-]*[*<{])")


def anchor(heading):
    """As the sites that show such files make it."""
    text = re.sub(r"[^\w\- ]", "", heading.strip("# \n").replace("`", "").lower())
    return text.replace(" ", "-")


def headings(path):
    return {anchor(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def faults(root, document):
    text = document.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        if re.match(r"https?://", link):
            continue
        name, _, wanted = link.partition("#")
        target = (document.parent / name) if name else document
        if not target.exists():
            yield f"{link} is not there"
        elif wanted and wanted not in headings(target):
            yield f"{link}: no such heading"
    for name in NAMED.findall(text):
        if not (root / name).exists():
            yield f"{name} is named and not there"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    documents = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("bench/*.md"), *root.glob("tests/*/*.md")]
    bad = [f"{document.relative_to(root)}: {fault}" for document in documents for fault in faults(root, document)]
    print("\n".join(bad))
    return 1 if bad or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
