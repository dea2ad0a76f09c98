#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An #include may name the includer's own folder and those above it in the list of layers."""
import pathlib
import re
import sys

LAYERS = ["base", "config", "host", "place", "transfer", "heap", "observe", "hook", "engine", "cli"]

# Where a folder needs headers of a lower one: contracts without code.
ALLOWED = {"transfer": ("hook/cuda.h", "hook/transfer_api.h")}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def violations(root):
    src = root / "src"
    for path in sorted(src.rglob("*.[ch]")) + sorted(src.rglob("*.def")) + sorted(src.rglob("*.S")):
        name = path.relative_to(src).as_posix()
        layer = name.split("/")[0]
        if layer not in LAYERS:
            yield f"src/{name}: {layer} is not in the list of layers"
            continue
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            other = included.split("/")[0]
            if "/" not in included or other not in LAYERS:
                continue
            if (LAYERS.index(other) > LAYERS.index(layer) and
                    included not in ALLOWED.get(layer, ())):
                yield f"src/{name}: {layer} includes {included}, which stands below it"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(violations(root))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
