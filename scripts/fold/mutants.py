#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves the mutants out of src, into edits of copies: mutants.py [--root DIR]. Run it once, after fold.py.

The marks in src become rows of tests/diff/mutants/edits.txt: the text without mark, and the text with it."""
import argparse
import difflib
import pathlib
import re
import shutil
import subprocess
import sys

MARK = r"GF_MUTATED\(\w+\)"
# Marks of one place each: text with mark, and without.
SINGLE = [
    (r"    if \(!waits \|\| !GF_MUTATED\(reads_early\)\)\n        reason", "    reason"),
    (r" *const bool early = waits && GF_MUTATED\(reads_early\);\n", ""),
    (r"waits && !early \?", "waits ?"),
    (r"\(idle \|\| early\)", "idle"),
    (r"bool ret = GF_MUTATED\(skips_a_read\) && piece == 1;\n\n    if \(!ret && ", "bool ret = false;\n\n    if ("),
    (r" *if \(GF_MUTATED\(looks_before_it_holds\)\)\n *return false;[^\n]*\n", ""),
    (r" *if \(early\)\n *GF_MUTATION_SLEEP[^;]*;\n", ""),
]
ANY = re.compile(r"GF_MUTAT|gf_mutation|gf_mutated")


def enclosing(text, at):
    """Returns the place of the parentheses around text[at]."""
    depth = 0
    for start in range(at - 1, -1, -1):
        depth += (text[start] == ")") - (text[start] == "(")
        if depth < 0:
            break
    else:
        return None
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return start, end
    return None


def unwrapped(text, at):
    """Drops parentheses around text[at] that group nothing any more."""
    place = enclosing(text, at)
    if not place:
        return text
    start, end = place
    inner, depth, flat = text[start + 1:end], 0, ""
    for letter in inner:
        depth += (letter == "(") - (letter == ")")
        flat += letter if depth == 0 else " "
    before = text[:start].rstrip()
    groups = re.search(r"&&|\|\||\?|(?<![-=<>!])[<>=](?!=)|[+*/%|,;]", flat)
    if text[start - 1] == "(" and text[end + 1] == ")":  # twice
        return text[:start] + inner + text[end + 1:]
    if re.search(r"(\w|\))$", before) and not before.endswith("return"):
        return text  # a call or a condition
    whole = before.endswith("return") and text[end + 1] == ";"
    return text if groups and not whole else text[:start] + inner + text[end + 1:]


def cleaned(text):
    """Returns the text as it is when no mutation is active."""
    marked = text
    for old, new in SINGLE:
        text = re.sub(old, new, text)
    text = re.sub(r'^#include "engine/transfer/mutation\.h"\n', "", text, flags=re.M)
    text = re.sub(rf"^( *)if \({MARK}[^\n]*\) \{{\n.*?\n\1\}}\n", "", text, flags=re.M | re.S)
    text = re.sub(rf"^( *)if \({MARK}[^\n|]*\)\n\1    [^;]*;\n", "", text, flags=re.M)
    text = re.sub(rf"^( *)if \(!{MARK}\)\n\1    ([^;]*;\n)", r"\1\2", text, flags=re.M)
    text = re.sub(r"^ *GF_MUTATION_\w+\(\w+\);\n", "", text, flags=re.M)
    text = re.sub(r"^( *)if \([^\n]*\)\n *gf_mutation_change_copy\([^;]*;\n", "", text, flags=re.M)
    text = re.sub(r"^ *gf_mutation_\w+\([^;]*;\n", "", text, flags=re.M)
    for found in re.finditer(rf"^ *const bool (\w+) =\s+{MARK} && [^;]*;\n", text, re.M):  # a flag of one mutant
        text = text.replace(found[0], "").replace(f"{found[1]} || ", "")
    text = re.sub(rf" \|\| \(\w+ && {MARK}\)", "", text)
    while found := re.search(rf" && !\({MARK} && ", text):
        text = text[:found.start()] + text[enclosing(text, found.end())[1] + 1:]
    text = re.sub(rf"^( *)do\n *([^;]*;)\n *while \({MARK} && [^\n]*\);\n", r"\1\2\n", text, flags=re.M)
    text = re.sub(rf"return {MARK};", "return false;", text)
    for pattern in (rf"{MARK} \|\|\s+", rf" \|\| {MARK}", rf"!{MARK} &&\s+", rf" && !{MARK}", rf"{MARK}[^?;|]*\?[^:?;]*:\s*"):
        while found := re.search(pattern, text):
            text = text[:found.start()] + text[found.end():]
            text = unwrapped(text, found.start())
            if text[found.start()] == "(":
                text = unwrapped(text, found.start() + 1)
    for found in reversed(list(re.finditer(r"return \(", text))):
        place = enclosing(text, found.end())
        statement = text[found.start():place[1] + 2]
        if statement.endswith(";") and statement not in marked:
            text = text[:found.start()] + "return " + statement[len("return ("):-len(");")] + ";" + text[place[1] + 2:]
    return text


def formatted(text):
    if not shutil.which("clang-format"):
        sys.exit("clang-format is not installed")
    return subprocess.run(["clang-format", "--assume-filename=x.c"], input=text, capture_output=True, text=True, check=True).stdout


def rows(clean, marked):
    """Yields (old, new) for each place. The old text occurs once, and no line of it belongs to two rows."""
    a, b = clean.splitlines(keepends=True), marked.splitlines(keepends=True)
    places = [[i1, i2, j1, j2] for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
              if tag != "equal"]
    floor = 0
    for at, place in enumerate(places):
        i1, i2, j1, j2 = place
        ceiling = places[at + 1][0] if at + 1 < len(places) else len(a)
        while True:
            text = "".join(a[i1:i2])
            if i1 < i2 and not a[i2 - 1].strip() and i2 < ceiling:  # the last line is not blank
                i2, j2 = i2 + 1, j2 + 1
            elif text.strip() and clean.count(text) == 1:
                break
            elif i1 > floor:
                i1, j1 = i1 - 1, j1 - 1
            elif i2 < ceiling:
                i2, j2 = i2 + 1, j2 + 1
            else:
                sys.exit(f"no unique text for {''.join(b[j1:j2])}")
        floor = i2
        yield "".join(a[i1:i2]), "".join(b[j1:j2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root.resolve()
    src, folder = root / "src", root / "tests/diff/mutants"
    out = ["SPDX-License-Identifier: Apache-2.0", "The mutants: in a copy of FILE of src/engine/transfer, the first text is replaced by "
           "the second. The first occurs once.", ""]
    cleans, bad = {}, []
    for path in sorted((src / "engine").rglob("*.[ch]")):
        marked = path.read_text(encoding="utf-8")
        if path.name == "mutation.h" or not ANY.search(marked):
            continue
        cleans[path] = clean = formatted(cleaned(marked))
        bad += [f"{path.relative_to(root)}: cannot clean: {line.strip()}" for line in clean.splitlines() if ANY.search(line)]
        marked = formatted(re.sub(r'^#include "engine/transfer/mutation\.h"\n', "", marked, flags=re.M))
        out.append(f"== {path.relative_to(src / 'engine/transfer').as_posix()}")
        for old, new in rows(clean, marked):
            out += ["<<<<", old.removesuffix("\n"), "====", new.removesuffix("\n"), ">>>>"]
    if bad:
        sys.exit("\n".join(bad))
    for path, clean in cleans.items():
        path.write_text(clean, encoding="utf-8")
    header = folder / "mutation.h"
    shutil.move(src / "engine/transfer/mutation.h", header)
    text = header.read_text(encoding="utf-8").replace("GF_ENGINE_TRANSFER_MUTATION_H", "GF_TESTS_MUTATION_H")
    text = re.sub(r"#ifdef GF_MUTANTS\n(.*?)#else\n.*?#endif\n", r"\1", text, flags=re.S)
    text = re.sub(r"/\*\n \* Mutants:.*?\*/\n", "/*\n * Mutants: deliberate bugs of copies of the engine's sources (edits.txt). An environment variable\n"
                  " * selects one, and at least one test must then fail.\n */\n", text, flags=re.S)
    header.write_text(text, encoding="utf-8")
    (folder / "edits.txt").write_text("\n".join(out) + "\n", encoding="utf-8")
    for name in ("apply.py", "meson.build"):
        shutil.copy(pathlib.Path(__file__).parent / "mutants" / name, folder / name)
    for path in (folder / "mutation.c", src / "meson.build", root / "docs/proof.md"):
        text = path.read_text(encoding="utf-8")
        text = text.replace('#include "engine/transfer/mutation.h"', '#include "mutation.h"').replace(
            "`src/engine/transfer/mutation.h`", "`tests/diff/mutants/edits.txt`").replace("git grep reads_early src/engine",
                                                                                          "git grep reads_early tests/diff")
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
