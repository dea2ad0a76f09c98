#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the build has made: products.py SOURCE BUILD HARDENED CC...

- The preload library exports exactly the symbols of hooks.def and family.def. Only those of VERSIONED have versions.
- Code that runs before the loader has relocated the library refers to no symbol outside. Such a module calls only modules of the
  same kind. The addresses of libc's functions are not known yet. That also concerns functions to which the compiler converts a
  loop, such as memcpy.
- Code of the trace and the heap runs inside malloc, so it calls no function of libc that allocates.
- If HARDENED is true, the products are hardened, and their debug information names no folder of the build. The preload library binds
  lazily, because binding at load would double its start-up time in a program that never allocates. gpufeed-stacks is no PIE,
  because the distribution's archives of libunwind are not position-independent. The preload library is not marked for CET: its
  assembly has no landing pads, and the distribution's archive of jemalloc is not marked."""
import difflib
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

# Rows of src/abi that name exported symbols.
LISTS = {"hooks.def": ["GF_CU(symbol)=symbol", "GF_LIBC(symbol)=symbol", "GF_API(symbol)=symbol"],
         "family.def": ["GF_FAMILY(name, type, parameters, arguments)=name", "GF_FAMILY_DERIVED(name)=name",
                        "GF_FAMILY_ALIAS(alias, name, type, parameters, arguments)=alias"]}
# Functions of which libc for x86-64 has older versions with another meaning (src/preload/exports.map.in).
VERSIONED = {"posix_spawn": ["@@GLIBC_2.15"], "posix_spawnp": ["@@GLIBC_2.15"], "sched_setaffinity": ["@@GLIBC_2.3.4"],
             "pthread_setaffinity_np": ["@@GLIBC_2.34", "@GLIBC_2.3.4"]}
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


def early(build):
    """Yields each symbol outside of the code that runs before relocation."""
    paths = {name: next((path for path in build.glob(f"*.p/{name}") if "native" not in path.as_posix()), None) for name in EARLY}
    yield from (f"no object file of {name}" for name, path in paths.items() if not path)
    paths = {name: path for name, path in paths.items() if path}
    defined = set().union(*(symbols(path, "--defined-only") for path in paths.values()))
    for name, path in paths.items():
        for symbol in sorted(symbols(path, "--undefined-only") - defined - LINKER - EARLY[name]):
            yield f"{name} refers to {symbol}"


def exports(root, library, compiler):
    """Yields the differences between the symbols that the library exports and those of the two lists."""
    wanted = []
    for name, macros in LISTS.items():
        flags = [f"-D{macro}" for macro in macros]
        listed = subprocess.run([*compiler, "-E", "-P", "-x", "c", *flags, root / "src/abi" / name], capture_output=True, text=True, check=True)
        wanted += listed.stdout.split()
        if not listed.stdout.split():
            yield f"{name} has no rows"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    found = sorted(line.split()[2] for line in listed.splitlines() if line.split()[1] != "A")
    if any("@" in name for name in found):
        wanted = [name + version for name in wanted for version in VERSIONED.get(name, [""])]
    yield from difflib.unified_diff(sorted(wanted), found, "lists", "exports", n=0, lineterm="")


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
    root, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    bad = [*early(build / "src"), *allocating(build / "src"), *exports(root, build / "src/preload/libgpufeed.so", sys.argv[4:])]
    if sys.argv[3] == "true":
        bad += [line for name in PRODUCTS if (build / name).exists() for line in check(build / name, name, {str(root), str(build)})]
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
