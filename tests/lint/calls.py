#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which files of src make some calls: calls.py SOURCE

- System calls that a program can notice are made only where a reason allows it. The folders of the command are not searched,
  because it is a separate program.
- Only src/base/output_file.c opens files for writing. The path of such a file comes from the user, and another user may have
  prepared its folders."""
import pathlib
import re
import sys

# What a program may notice, and the functions and system calls that cause it. `mmap` counts only with MAP_FIXED.
KINDS = {
    "descriptors": "open openat creat close dup dup2 dup3 fopen fdopen fclose opendir closedir pipe pipe2 socket "
                   "memfd_create shm_open mkstemp popen close_range F_DUPFD F_DUPFD_CLOEXEC dlopen",
    "pages": "munmap madvise mremap mprotect brk MAP_FIXED",
}
# Private memory of the library, which the program can neither register nor map.
OWN = "memory that the library mapped itself"
PERMITTED = {
    "src/base/base.h": {"pages": OWN},
    "src/base/elf_view.c": {"descriptors": "used by the command only", "pages": "used by the command only"},
    "src/base/input_file.c": {"descriptors": "used by the command, also by os/procfs.c for recorded machines, and within cuInit"},
    "src/base/loader.c": {
        "descriptors": "before relocation, when the process has one thread",
        "pages": "makes this library's own table of calls writable for a moment",
    },
    "src/base/output_file.c": {"descriptors": "log, report and metrics; called through gf_own_table_run"},
    "src/config/generate.c": {"descriptors": "a program of the build"},
    "src/engine/gputime/waits.c": {"descriptors": "compares the numbers of system calls; makes none of them"},
    "src/engine/process/intervals.c": {"pages": OWN},
    "src/engine/process/output.c": {"descriptors": "after gf_own_table_leave, in the thread's own table", "pages": OWN},
    "src/engine/process/start_options.c": {
        "descriptors": "keeps a loaded library by its path, which opens no file; on the library's thread, when the engine starts",
    },
    "src/engine/transfer/copy/ring.c": {"pages": OWN},
    "src/engine/transfer/copy/ring_size.c": {"pages": OWN},
    "src/engine/transfer/files/imports.c": {"pages": "makes one library's table of addresses writable for a moment"},
    "src/engine/transfer/files/readahead.c": {"pages": "advises reading; takes none away"},
    "src/engine/transfer/files/shared_read.c": {"descriptors": "closes what helpers took into their own table"},
    "src/engine/transfer/files/unmap.c": {
        "pages": "within the program's own munmap of the range; the range that the program has unmapped",
    },
    "src/engine/transfer/helper.c": {"pages": OWN},
    "src/engine/transfer/pages.c": {"pages": "populates pages; takes none away"},
    "src/engine/transfer/pinned/kept_mapping.c": {
        "pages": "memory that the library mapped itself; reverts what the program set for memory that it has freed; takes none away",
    },
    "src/engine/transfer/pinned/pinned_mapping.c": {
        "pages": "memory that the library mapped itself; populates pages; takes none away",
    },
    "src/host/gpu.c": {
        "descriptors": "finds a loaded library by its path, which opens no file; within cuInit, as the driver opens files",
    },
    "src/os/cpu_claim.c": {
        "descriptors": "in the table of the thread that serves the caller; after gf_own_table_leave, in the thread's own table",
    },
    "src/os/elf_fault.c": {"descriptors": "within cuInit, before the engine is loaded, and in the command", "pages": OWN},
    "src/os/files.c": {
        "descriptors": "files that stay open; identity checked before close; on threads with a descriptor table of their own",
    },
    "src/os/own_table.c": {"descriptors": "makes the tables, in which the rest opens files"},
    "src/os/permit_find.c": {"descriptors": "in a child process that only tries calls"},
    "src/os/procfs.c": {"descriptors": "refuses to open in the program's table"},
    "src/preload/attach/attach.c": {"descriptors": "loads the engine within cuInit", "pages": OWN},
    "src/preload/attach/counters.c": {"pages": OWN},
    "src/preload/attach/driver.c": {"descriptors": "pins the driver within cuInit", "pages": OWN},
    "src/preload/heap/big_pool.c": {
        "pages": "new mappings, growth in place and flags take none away; jemalloc_sys.c announces the rest",
    },
    "src/preload/heap/first_touch.c": {"pages": "advises huge pages; takes none away"},
    "src/preload/heap/jemalloc_conf.c": {"descriptors": "jemalloc's profiling, which MALLOC_CONF requests"},
    "src/preload/heap/jemalloc_sys.c": {
        "pages": "the heap's calls; jemalloc_sys.c announces them; libc's functions, which are monitored",
    },
    "src/preload/heap/mappings.c": {"pages": "advises; takes none away"},
    "src/preload/hook/on_process.c": {"pages": "the program's own munmap"},
    "src/preload/malloc/libc_names.c": {"pages": "makes libc's table of calls writable for a moment"},
    "src/preload/trace/journal.c": {"pages": OWN},
}

OPENS = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)\b|\b(creat|mkstemp|mkostemp|freopen|mkdir|mknod|mkfifo|symlink|link|rename)\(|"
                   r"\bhwloc_topology_export_xml\(|\bfopen\(")
READS = re.compile(r'fopen\([^;]*"re?"\)')
WRITERS = {
    "src/base/output_file.c": "the rule",
    "src/engine/transfer/files/shared_read.c": "compares the flags of the program's descriptor",
    "src/os/cpu_claim.c": "a device of the kernel at a fixed path",
    "src/os/own_table.c": "/dev/null for a thread's own descriptor table",
    "src/tools/run/private_shm.c": "files of /proc/self, and a file without a name",
}


def code(path):
    """Returns the text without comments and string literals. Line numbers stay the same."""
    text = path.read_text(encoding="utf-8")
    blank = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return blank.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def calls(text, words):
    """Yields (line, word) for each call: by name, through a pointer in a struct, or by number."""
    names = "|".join(word for word in words if word.islower())
    flags = "|".join(word for word in words if word.isupper())
    pattern = rf"(?<![\w.])({names})\(|\bSYS_({names})\b" + (rf"|\b({flags})\b" if flags else "")
    for found in re.finditer(pattern, text):
        yield text.count("\n", 0, found.start()) + 1, next(filter(None, found.groups()))


def check(root):
    bad, seen = [], set()
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = str(path.relative_to(root))
        if name.startswith("src/tools/"):
            continue
        text = code(path)
        for kind, words in KINDS.items():
            for line, word in calls(text, words.split()):
                seen.add((name, kind))
                if kind not in PERMITTED.get(name, {}):
                    bad.append(f"{name}:{line}: {word}: no reason in tests/lint/calls.py permits it")
    bad += [f"tests/lint/calls.py: {name} makes no call of {kind}" for name, kinds in PERMITTED.items()
            for kind in kinds if (name, kind) not in seen]
    return bad


def check_writes(root):
    bad, seen = [], set()
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = str(path.relative_to(root))
        original = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(code(path).splitlines()):
            found = OPENS.search(line)
            if not found or (found[0] == "fopen(" and READS.search(original[number])):
                continue
            seen.add(name)
            if name not in WRITERS:
                bad.append(f"{name}:{number + 1}: {found[0]}: open the file by src/base/output_file.h, or say in tests/lint/calls.py why not")
    return bad + [f"tests/lint/calls.py: {name} opens nothing for writing" for name in WRITERS if name not in seen]


def main():
    root = pathlib.Path(sys.argv[1])
    bad = check(root) + check_writes(root)
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
