#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tables of documents that are generated from tables in code: tables.py SOURCE [--write]

Each is between two lines of its document, "<!-- NAME: ... -->" and "<!-- end of NAME -->". If the code does not have
the last column, the document's text is kept."""
import pathlib
import re
import sys

import layers

STRING = r'((?:"[^"]*"\s*)+)'


def joined(literals):
    return "".join(re.findall(r'"([^"]*)"', literals)).strip()


def kept(old):
    """Returns {name of a row: its last column}."""
    return {cells[1].strip(" `"): cells[-2].strip() for cells in (row.split("|") for row in old.splitlines())
            if len(cells) > 2}


def reasons(root, old):
    """Returns the table of reasons why a copy is left to the driver, from stats.h."""
    text = (root / "src/engine/transfer/stats.h").read_text(encoding="utf-8").replace("\\\n", "\n")
    text = text[text.index("#define GF_BYPASS_REASONS"):text.index("enum gf_bypass {")]
    rows = ["| reason | words of the summary | details, and what helps |", "|---|---|---|"]
    for token, words in re.findall(rf"X\((\w+),\s*{STRING}\)", text):
        rows.append(f"| `{token}` | {joined(words)} | {kept(old).get(token, '')} |")
    return rows


def causes(root, _old):
    """Returns the table of what the host did while a GPU had nothing to do, from shares.h and helps.def."""
    listed = (root / "src/engine/gputime/shares.h").read_text(encoding="utf-8")
    helps = (root / "src/tools/answer/helps.def").read_text(encoding="utf-8")
    found = re.findall(rf'GF_HOST\((\w+),\s*"[^"]*",\s*{STRING}\)', helps)
    remedies = {token: joined(text) for token, text in found}
    rows = ["| cause | the thread that submits work | what helps |", "|---|---|---|"]
    for token, meaning in re.findall(r"\bCAUSE\((\w+)\)\s*/\* (.*?) \*/", listed):
        rows.append(f"| `{token}` | {meaning} | {remedies[token]} |")
    return rows


def graph(root, _old):
    """Returns the table of folders and the folders that they may use, from layers.py. "X and below": X with all that X may use."""
    used = layers.graph(root / "src")
    reach = {folder: {folder, *others} for folder, others in used.items()}
    rows = ["| folder of src | may use |", "|---|---|"]
    for folder in used:
        left, words = reach[folder] - {folder}, []
        while left:
            whole = [name for name in used if name in left and len(reach[name]) > 1 and reach[name] <= left]
            if not whole:
                break
            top = max(whole, key=lambda name: len(reach[name]))
            words.append(f"{top} and below")
            left = left - reach[top]
        rows.append(f"| `{folder}` | {', '.join(words + [name for name in used if name in left]) or 'nothing'} |")
    return rows


TABLES = {"docs/architecture.md": {"graph": graph}, "docs/report.md": {"causes": causes, "reasons": reasons}}


def filled(root, text, name, make):
    pattern = re.compile(rf"(?<=^<!-- {name}: )(.*?-->\n)(.*?)(?=^<!-- end of {name} -->$)", re.M | re.S)
    new, count = pattern.subn(lambda found: found[1] + "".join(row + "\n" for row in make(root, found[2])), text)
    return new if count == 1 else None


def main():
    root, write = pathlib.Path(sys.argv[1]), "--write" in sys.argv
    bad = []
    for path, tables in TABLES.items():
        if not (root / path).is_file():
            bad.append(f"{path} is not there")
            continue
        before = (root / path).read_text(encoding="utf-8")
        text = before
        for name, make in tables.items():
            new = filled(root, text, name, make)
            if new is None:
                bad.append(f"{path} lacks the lines of the table {name}")
            else:
                text = new
        if write:
            (root / path).write_text(text, encoding="utf-8")
        elif text != before:
            bad.append(f"{path} is not what the code says; run: tests/lint/tables.py . --write")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
