#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links between the documents: each linked file, heading and symbol (gf_...) exists. A comment of src names only
sources that exist."""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/.-])(?:docs|src|tests|bench|scripts|examples|include)/[\w./-]*\w(?![\w./-]*[*<{])")
SYMBOL = re.compile(r"(?<![\w/])gf_\w*[a-z0-9](?![\w<*./])")
# A source in a comment of src. Of headers without a folder, many are libc's.
COMMENT = re.compile(r"/\*.*?\*/", re.S)
SOURCE = re.compile(r"(?<![\w./-])(?!mm/|linux/)(?:(?:[a-z_]+/)+[a-z_]\w*\.[hS]|(?:[a-z_]+/)*[a-z_]\w*\.c)\b(?![\w.])")


def anchor(heading):
    """Returns the anchor of a heading, as code hosting sites make it."""
    text = re.sub(r"[^\w\- ]", "", heading.strip("# \n").replace("`", "").lower())
    return text.replace(" ", "-")


def headings(path):
    return {anchor(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def words_of_source(root):
    """Returns all words of the sources, which include every symbol."""
    found = set()
    for path in [*root.glob("src/**/*"), *root.glob("include/*")]:
        if path.suffix in (".c", ".h", ".def", ".S", ".build"):
            found.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return found


def faults(root, document, known):
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
    if document.parent.name != "bench":  # the notes of bench/ describe past experiments, whose symbols may no longer exist
        for name in sorted(set(SYMBOL.findall(text)) - known):
            yield f"{name} is named, and no symbol of src"


def comment_faults(root):
    paths = {"/" + path.relative_to(root / "src").as_posix(): path for path in sorted((root / "src").rglob("*")) if path.is_file()}
    for place, path in paths.items():
        if path.suffix not in (".c", ".h", ".S", ".def", ".syms"):
            continue
        text = path.read_text(encoding="utf-8")
        for comment in [text] if path.suffix == ".syms" else COMMENT.findall(text):
            for name in SOURCE.findall(comment):
                if not any(other.endswith("/" + name) for other in paths) and not (root / name).exists():
                    yield f"src{place}: a comment names {name}, which is not there"


def check(root):
    documents = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("bench/*.md"), *root.glob("tests/*/*.md")]
    known = words_of_source(root)
    bad = [f"{document.relative_to(root)}: {fault}" for document in documents for fault in faults(root, document, known)]
    return bad + [*comment_faults(root)] + ([] if documents else ["there are no documents"])


def main():
    bad = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
