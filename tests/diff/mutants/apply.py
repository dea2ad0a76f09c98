#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the mutants' copies of sources: apply.py EDITS SOURCES FOLDER, or apply.py EDITS (lists the names of the copies).

EDITS has, for each file below SOURCES, texts and their replacements. Each text occurs exactly once."""
import pathlib
import re
import sys


def edits(path):
    """Yields (file, [(old, new)])."""
    for part in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, rest = part.partition("\n")
        yield name, re.findall(r"^<<<<\n(.*?)^====\n(.*?)^>>>>$", rest, re.M | re.S)


def main():
    listed = list(edits(pathlib.Path(sys.argv[1])))
    if len(sys.argv) == 2:
        print("\n".join(pathlib.Path(name).name for name, _ in listed))
        return 0
    sources, folder, bad = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), []
    for name, rows in listed:
        text = (sources / name).read_text(encoding="utf-8")
        for old, _ in rows:
            if text.count(old) != 1:
                bad.append(f"{sys.argv[1]}: {name} has this text {text.count(old)} times, not once:\n{old}")
        for at, old, new in sorted(((text.find(old), old, new) for old, new in rows), reverse=True):
            text = text[:at] + new + text[at + len(old):]
        (folder / pathlib.Path(name).name).write_text(text, encoding="utf-8")
    print("\n".join(bad), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
