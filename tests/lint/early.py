#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the undefined symbols of code that may call little: early.py BUILD

Code that runs before the loader has relocated the library refers to no symbol outside. Such a module calls only
modules of the same kind. The addresses of libc's functions are not known yet. That also concerns functions to which
the compiler converts a loop, such as memcpy.

Code of the trace and the heap runs inside malloc, so it calls no function of libc that allocates."""
import pathlib
import subprocess
import sys

# Object files below src, and the symbols in them that belong to the relocated library.
EARLY = {"base_loader.c.o": {"_r_debug"},
         "preload_hook_entry.c.o": {"gf_mode_now", "gf_duplicate_load_passes", "gf_originals_find"}}
INSIDE_MALLOC = ["preload/trace", "preload/heap"]
ALLOCATES = set("malloc calloc realloc reallocarray free aligned_alloc memalign posix_memalign valloc pvalloc strdup strndup "
                "asprintf vasprintf fopen fopen64 fdopen freopen open_memstream fmemopen opendir fdopendir scandir getline "
                "getdelim getcwd realpath setenv putenv unsetenv pthread_create pthread_setspecific qsort regcomp".split())
LINKER = {"_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "__ehdr_start", "__stack_chk_fail"}


def symbols(path, kind):
    listed = subprocess.run(["nm", "-P", kind, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines()}


def allocating(build):
    """Yields a line for each call of a function that allocates, and one for each room without objects."""
    for room in INSIDE_MALLOC:
        objects = sorted(build.glob(f"libgf_*.p/{room.replace('/', '_')}_*.o"))
        if not objects:
            yield f"no object files of {room}"
        for path in objects:
            for symbol in sorted(symbols(path, "--undefined-only") & ALLOCATES):
                yield f"{room}: {path.name.removesuffix('.o')} runs inside malloc, and calls {symbol}, which allocates"


def main():
    build = pathlib.Path(sys.argv[1]) / "src"
    paths = {}
    for name in EARLY:
        found = [path for path in build.glob(f"*.p/{name}") if "native" not in path.as_posix()]
        if not found:
            print(f"no object file of {name}", file=sys.stderr)
            return 1
        paths[name] = found[0]
    defined = set().union(*(symbols(path, "--defined-only") for path in paths.values()))
    bad = []
    for name, path in paths.items():
        for symbol in sorted(symbols(path, "--undefined-only") - defined - LINKER - EARLY[name]):
            bad.append(f"{name} refers to {symbol}")
    bad += allocating(build)
    print("\n".join(bad), file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
