#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only src/base/output_file.c opens files for writing: writes.py SOURCE

The path of such a file comes from the user, and another user may have prepared its folders."""
import pathlib
import re
import sys

from calls import code

OPENS = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)\b|\b(creat|mkstemp|mkostemp|freopen|mkdir|mknod|mkfifo|symlink|link|rename)\(|"
                   r"\bhwloc_topology_export_xml\(|\bfopen\(")
READS = re.compile(r'fopen\([^;]*"re?"\)')
PERMITTED = {
    "src/base/output_file.c": "the rule",
    "src/engine/transfer/files/shared_read.c": "compares the flags of the program's descriptor",
    "src/os/cpu_claim.c": "a device of the kernel at a fixed path",
    "src/os/own_table.c": "/dev/null for a thread's own descriptor table",
}


def main():
    root = pathlib.Path(sys.argv[1])
    bad, seen = [], set()
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = str(path.relative_to(root))
        original = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(code(path).splitlines()):
            found = OPENS.search(line)
            if not found or (found[0] == "fopen(" and READS.search(original[number])):
                continue
            seen.add(name)
            if name not in PERMITTED:
                bad.append(f"{name}:{number + 1}: {found[0]}: open the file by src/base/output_file.h, or say in tests/lint/writes.py why not")
    bad += [f"tests/lint/writes.py: {name} opens nothing for writing" for name in PERMITTED if name not in seen]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
