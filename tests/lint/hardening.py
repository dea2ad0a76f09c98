#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the products are hardened, and that their debug information names no folder of the build:
hardening.py SOURCE BUILD

- The preload library binds lazily, because binding at load would double its start-up time in a program that never allocates.
- gpufeed-stacks is no PIE, because the distribution's archives of libunwind are not position-independent.
- The preload library is not marked for CET: its assembly has no landing pads, and the distribution's archive of jemalloc is not marked."""
import pathlib
import re
import subprocess
import sys

PRODUCTS = {
    "src/preload/libgpufeed.so": {"lazy"},
    "src/engine/libgpufeed-engine.so": {"rpath", "fortified"},
    "src/tools/gpufeed": {"rpath", "fortified", "pie"},
    "src/tools/gpufeed-stacks": {"fortified"},
}


def readelf(path, *flags):
    return subprocess.run(["readelf", "-W", *flags, path], capture_output=True, check=True).stdout.decode(errors="replace")


def check(path, name, roots):
    marks, expected = readelf(path, "-h", "-l", "-d", "-n", "--dyn-syms"), PRODUCTS[name]
    fits = {
        "has no RELRO segment": "GNU_RELRO" in marks,
        "does not bind at load (BIND_NOW)": "lazy" in expected or bool(re.search(r"FLAGS\S*\).*\bNOW\b", marks)),
        "has an executable stack": not re.search(r"GNU_STACK.* RWE ", marks),
        "has text relocations": "TEXTREL" not in marks,
        "has no stack protector": "__stack_chk_fail" in marks or "__stack_chk_guard" in marks,
        "is not fortified": "fortified" not in expected or bool(re.search(r"__\w+_chk@", marks.replace("__stack_chk", ""))),
        "has a RUNPATH, which is searched after LD_LIBRARY_PATH": "rpath" not in expected or "(RPATH)" in marks,
        "is marked for CET": "lazy" not in expected or "SHSTK" not in marks,
        "is no PIE": "pie" not in expected or "PIE" in marks,
    }
    bad = [what for what, fit in fits.items() if not fit]
    debug = readelf(path, "--debug-dump=info,line")
    bad += [f"names {root} in its debug information" for root in roots if root in debug]
    return [f"{name} {what}" for what in bad]


def main():
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    bad = [line for name in PRODUCTS if (build / name).exists() for line in check(build / name, name, {str(source), str(build)})]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
