#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documents: docs.py SOURCE [OPTIONS [all [BUILD]]] [--write]

What they have from tables of the code (here); with the word `all`, also the places that a change needs (places.py) and links
(links.py), and with the folder of a build that has the command, commands (commands.py). --write writes the tables.

A table is between two lines of its document, "<!-- NAME: ... -->" and "<!-- end of NAME -->". If the code does not have
the last column, the document's text is kept. The schemas docs/schema/*.json are whole files. OPTIONS is the table of options,
which the build makes (build/src/options.md); without it, that table is not checked."""
import pathlib
import re
import sys

import commands
import fields
import layers
import links
import places

def kept(old):
    """Returns {name of a row: its last column}."""
    return {cells[1].strip(" `"): cells[-2].strip() for cells in (row.split("|") for row in old.splitlines())
            if len(cells) > 2}


def known(root, kind):
    """Yields the arguments of each row of that kind in reasons.def."""
    text = (root / "src/abi/reasons.def").read_text(encoding="utf-8")
    for body in re.findall(rf"^{kind}\((\w+, .*?)\)$", text, re.M | re.S):
        yield fields.arguments(body)


def reasons(root, old):
    """Returns the table of reasons why a copy is left to the driver."""
    rows = ["| reason | words of the summary | details, and what helps |", "|---|---|---|"]
    return rows + [f"| `{name}` | {words} | {kept(old).get(name, '')} |" for name, words, _ in known(root, "GF_REASON")]


def causes(root, _old):
    """Returns the table of what the host did while a GPU had nothing to do."""
    rows = ["| cause | the thread that submits work | what helps |", "|---|---|---|"]
    return rows + [f"| `{name}` | {meaning} | {remedy} |" for name, _, meaning, remedy in known(root, "GF_HOST")]


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


def checks(root, _old):
    """Returns the table of doctor's checks, from checks.def."""
    text = (root / "src/tools/doctor/checks.def").read_text(encoding="utf-8")
    rows = ["| check | reads | why it matters | page |", "|---|---|---|---|"]
    for body in re.findall(r"^GF_CHECK\((.*?)\)$", text, re.M | re.S):
        _, name, reads, why, page = fields.arguments(body)[:5]
        rows.append(f"| `{name}` | {reads} | {why} | [{page}]({page}) |")
    return rows


def output(root, name):
    """Returns the fields of one JSON output."""
    return fields.Fields(root / "docs/schema" / f"{name}.def", (root / "src/abi/formats.h").read_text(encoding="utf-8"))


def listed(name):
    return lambda root, _old: output(root, name).markdown()


SCHEMAS = "log", "report", "answer", "doctor"
TABLES = {
    "docs/architecture.md": {"graph": graph},
    "docs/doctor.md": {"checks": checks, "doctor_fields": listed("doctor")},
    "docs/log.md": {"log_fields": listed("log")},
    "docs/reading.md": {"answer_fields": listed("answer")},
    "docs/report.md": {"report_fields": listed("report"), "causes": causes, "reasons": reasons},
}


def filled(root, text, name, make):
    pattern = re.compile(rf"(?<=^<!-- {name}: )(.*?-->\n)(.*?)(?=^<!-- end of {name} -->$)", re.M | re.S)
    new, count = pattern.subn(lambda found: found[1] + "".join(row + "\n" for row in make(root, found[2])), text)
    return new if count == 1 else None


def wanted(root, tables):
    """Yields (document, its text as the code says, what is wrong)."""
    for path, makers in tables.items():
        text, bad = (root / path).read_text(encoding="utf-8"), []
        for name, make in makers.items():
            new = filled(root, text, name, make)
            if new is None:
                bad.append(f"{path} lacks the lines of the table {name}")
            text = new or text
        yield path, text, bad
    for name in SCHEMAS:
        yield f"docs/schema/{name}.json", output(root, name).schema(), []


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root, tables, faults = pathlib.Path(words[0]), dict(TABLES), []
    if len(words) > 1:
        options = pathlib.Path(words[1]).read_text(encoding="utf-8").splitlines()
        tables["docs/environment.md"] = {"options": lambda _root, _old: options}
    for path, text, bad in wanted(root, tables):
        faults += bad
        if "--write" in sys.argv:
            (root / path).write_text(text, encoding="utf-8")
        elif text != (root / path).read_text(encoding="utf-8"):
            faults.append(f"{path} is not what the code says; run: {' '.join([sys.argv[0], *words])} --write")
    if len(words) > 2:
        faults += links.check(root.resolve()) + places.check(root)
    if len(words) > 3:
        faults += commands.check(root.resolve(), pathlib.Path(words[3]).resolve())
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
