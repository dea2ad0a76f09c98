#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks CONTRIBUTING's table of the places that a change needs: places.py SOURCE

For each row, the check searches for one existing example. It must occur in as many files as the row says, and only in
files that the row names. The search covers src and the row's own files. Generated text does not count."""
import fnmatch
import pathlib
import re
import sys

TITLE = "## How many places does a change need?"
# For each row of the table, patterns of an existing example, by a text that each match contains: most files lack it, and searching
# them for the text takes less time.
PLACES = {
    "an option": {"GPUFEED_STAGE_RING": r"\bGPUFEED_STAGE_RING\b", "GPUFEED_STALL_WAIT_US": r"\bGPUFEED_STALL_WAIT_US\b"},
    "a hook": {"cuMemcpy3D_v2": r"\bcuMemcpy3D_v2\b", "mlock2": r"\bmlock2\b"},
    "a member of the malloc family": {"pvalloc": r"(\b|_)pvalloc\(|\(pvalloc\b", "mallopt": r"(\b|_)mallopt\(|\(mallopt\b"},
    "a doctor check": {"reclaim": r"\bgf_check_zone_reclaim\b|GF_CHECK\(zone_reclaim\b|\"zone-reclaim\""},
    "a kernel file that a check reads": {"zone_reclaim_mode": r"vm/zone_reclaim_mode"},
    "a stall cause": {"throttled": r"\b(X|SET_CAUSE)\(throttled\b|^\| `throttled` \|"},
    "a bypass reason": {"few_threads": r"\b(gf_bypass_|GF_REASON\()few_threads\b"},
    "a report field": {"throttled_s": r'"(guard\.)?throttled_s"'},
    "a log field": {"ppid": r'"ppid"'},
    "a debug area": {"X(debug, place)": r"\bX\(debug, place\)"},
}


def rows(text):
    """Yields each row: what it adds, the number of places, and the places."""
    section = text[text.index(TITLE):].split("\n## ")[0]
    for cells in (line.split("|") for line in section.splitlines() if line.startswith("| a")):
        found = re.match(r" (\d+): ", cells[2])
        yield cells[1].strip(), int(found[1]) if found else 0, re.findall(r"`([\w/<>-]*[/.][\w/.<>-]+)`", cells[2])


def handwritten(path):
    return re.sub(r"^<!-- (\w+): written by .*?^<!-- end of \1 -->$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def is_named(path, names):
    """Returns whether the names include this path. A name may be a folder, a file, or a file of the folder named
    before it. <...> stands for any word."""
    globs = [re.sub("<[^>]*>", "*", name) for name in names]
    return any(fnmatch.fnmatch(path, glob) or path.startswith(glob + "/") or
               "/" not in glob and fnmatch.fnmatch(path.rsplit("/", 1)[-1], glob) for glob in globs)


def check(root):
    table = list(rows((root / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    bad = [f"CONTRIBUTING.md has no row for {what}" for what in PLACES if what not in [row[0] for row in table]]
    sources = {str(path.relative_to(root)): handwritten(path) for path in (root / "src").rglob("*") if path.is_file()}
    for what, count, names in table:
        if what not in PLACES:
            bad.append(f"CONTRIBUTING.md: {what}: places.py knows none that stands for it")
        others = {name: handwritten(root / name) for name in names if (root / name).is_file()}
        for part, pattern in PLACES.get(what, {}).items():
            found = sorted(path for path, text in {**others, **sources}.items() if part in text and re.search(pattern, text, re.M))
            if len(found) != count or not all(is_named(path, names) for path in found):
                bad.append(f"CONTRIBUTING.md: {what} needs {count} places of {' '.join(names)}, "
                           f"but {pattern} stands in {' '.join(found) or 'none'}")
    return bad


def main():
    bad = check(pathlib.Path(sys.argv[1]))
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
