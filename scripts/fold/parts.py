# SPDX-License-Identifier: Apache-2.0
"""The table of modules, and the files that become parts of a module."""

import argparse
import collections
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">](.*)$')
LEXER = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PROTOTYPE = re.compile(r"^(?!static|extern|typedef|return|#)([A-Za-z_][\w ]*[ *]+)(gf_\w+)\((?:[^;{}()]|\([^;{}()]*\))*\);\n", re.M)
TEXT = {".c", ".h", ".S", ".def", ".py", ".sh", ".md", ".txt", ".build", ".in", ".map", ".syms", ".yml", ".toml", ".json",
        ".html", ".install", ".supp", ""}
WIDTH = 100


class Table:
    def __init__(self, root):
        self.src = root / "src"
        self.modules, self.purpose, self.files, self.made, self.words = {}, {}, {}, {}, []
        self.names = collections.defaultdict(list)
        for line in self.lines("table.txt"):
            new, _, rest = line.partition(" : ")
            olds, _, purpose = rest.partition(" | ")
            kind, _, path = new.partition(" ")
            if kind == "word":
                self.words.append(path.split())
            elif kind == "file":
                self.files[olds] = path
            elif kind == "made":
                self.made[olds] = path
            else:
                self.modules[new], self.purpose[new] = olds.split(), purpose
        self.olds = dict(self.modules)
        for line in self.lines("names.txt"):
            old, _, words = line.partition(" : ")
            self.names[old].append(words.split()[:2])

    @staticmethod
    def lines(name):
        return [line for line in (HERE / name).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]

    def there(self, module):
        return [suffix for suffix in (".c", ".h") if (self.src / (module + suffix)).is_file()]

    def check(self):
        """Drops what src lacks. Returns the files of src that the table does not name."""
        known = set(self.files) | set(self.files.values())
        for new, olds in list(self.modules.items()):
            kept = [old for old in olds if self.there(old)]
            if not kept and self.there(new):
                kept = [new]  # folded earlier
            for old in set(olds) - set(kept) if kept != [new] else ():
                print(f"note: src/{old} is gone; {new} is made without it")
            if not kept:
                print(f"note: no part of {new} is left; it is not made")
                del self.modules[new]
                continue
            self.modules[new] = kept
            known |= {part + suffix for part in [new, *kept] for suffix in (".c", ".h")}
        found = {path.relative_to(self.src).as_posix() for path in self.src.rglob("*") if path.is_file()}
        for old in [old for old in self.files if old not in found]:
            if self.files[old] not in found:
                print(f"note: src/{old} is gone")
            del self.files[old]
        return sorted(name for name in found - known if not name.endswith("meson.build"))


def lexed(text):
    """Yields (whether it is code, text)."""
    at = 0
    for found in LEXER.finditer(text):
        yield True, text[at:found.start()]
        yield False, found[0]
        at = found.end()
    yield True, text[at:]


def code_of(text):
    """Returns the text with comments and strings blanked; positions stay."""
    return LEXER.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def renamed(path, text, names):
    for old, new in names:
        word = re.compile(rf"(?<![\w.])(?<!->){old}\b(?!\s*/)")
        before = text
        text = "".join(word.sub(new, part) if code else part for code, part in lexed(text))
        if text == before:
            print(f"note: {path}: no {old}, which scripts/fold/names.txt renames")
    return text


class Part:
    """A C file without licence line and header guard: head comment, #include lines, body."""

    def __init__(self, path, names=()):
        text = renamed(path, path.read_text(encoding="utf-8"), names)
        text = text.removeprefix(SPDX + "\n")
        self.head = ""
        found = re.match(r"/\*.*?\*/\n", text, re.S)
        if found:
            self.head, text = found[0], text[found.end():]
        if path.suffix == ".h":
            text = re.sub(r"^\s*#ifndef (\w+)\n#define \1\n", "", text, count=1)
            text = re.sub(r"\n#endif[^\n]*\n*\Z", "\n", text)
        self.includes, lines, depth, code = [], [], 0, False
        # A macro that a header reads stands before the first #include, also in the merged file.
        found = re.match(r"(#define \w+\n)+(?=#include)", text)
        self.first = found[0] if found else ""
        text = text.removeprefix(self.first)
        shown = code_of(text).split("\n")
        for line, bare in zip(text.split("\n"), shown):
            depth += bool(re.match(r"\s*#\s*if", bare)) - bool(re.match(r"\s*#\s*endif", bare))
            found = INCLUDE.match(line)
            if found and depth == 0 and not code and found[2].endswith(".h"):
                self.includes.append((found[1], found[2], found[3]))
                continue
            code = code or bool(bare.strip()) and not re.match(r"\s*#\s*(if|endif)", bare)
            lines.append(line)
        self.body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        if self.body:
            self.body += "\n"
