#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for every file of the repository: it has the licence line, ends with a newline, and is not
too long. A file that begins with "#!" is executable if the documents run it. clang-format keeps
code to 100 columns; a comment behind code may be a little longer. A file has at most 650 lines."""
import pathlib
import subprocess
import sys

CODE = {".c", ".h", ".S", ".def", ".py", ".sh", ".build", ".in"}
NAMED = {"meson.build", "meson_options.txt", "run"}
LONGEST = 650  # CONTRIBUTING names this limit, too


def files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True,
                            check=False)
    if listed.returncode:  # an unpacked archive
        return sorted(p for p in root.rglob("*") if p.is_file() and "build" not in p.parts[:1])
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def is_code(path):
    return path.suffix in CODE or path.name in NAMED


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    bad = []
    for path in files(root):
        name = path.relative_to(root)
        if not is_code(path):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            bad.append(f"{name}: no SPDX line at the top")
        if text and not text.endswith("\n"):
            bad.append(f"{name}: no newline at the end")
        if any(line != line.rstrip() for line in lines):
            bad.append(f"{name}: blanks at the end of a line")
        if path.suffix in (".c", ".h"):
            bad += [f"{name}:{i + 1}: tab, or more than 130 columns" for i, line in enumerate(lines)
                    if len(line) > 130 or "\t" in line]
        if text.startswith("#!") and not path.stat().st_mode & 0o100:
            bad.append(f"{name}: begins with #! and is not executable")
        if len(lines) > LONGEST:
            bad.append(f"{name}: {len(lines)} lines, split it")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
