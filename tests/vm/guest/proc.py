# SPDX-License-Identifier: Apache-2.0
"""Reads the kernel's data about another process: masks, policies, and nodes of pages."""

import collections
import contextlib
import ctypes
import os
import re

PAGE = 4096
SYS_MOVE_PAGES = 279

Mapping = collections.namedtuple("Mapping", "start end policy pages anon size_kib name")
_libc = ctypes.CDLL(None, use_errno=True)


def cpu_list(text):
    """Returns a list of CPUs such as "0-3,8" as a frozenset."""
    cpus = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def show(cpus):
    """Returns a set of CPUs as text, for messages."""
    runs, out = sorted(cpus), []
    while runs:
        last = 0
        while last + 1 < len(runs) and runs[last + 1] == runs[last] + 1:
            last += 1
        out.append(str(runs[0]) if not last else f"{runs[0]}-{runs[last]}")
        del runs[:last + 1]
    return ",".join(out) or "none"


def status(pid, tid=None):
    path = f"/proc/{pid}/task/{tid}/status" if tid else f"/proc/{pid}/status"
    with open(path) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


Thread = collections.namedtuple("Thread", "tid name cpus")


def threads(pid):
    """Returns the threads of a process, without those that end meanwhile, such as the library's short threads."""
    out = []
    for tid in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
        try:
            fields = status(pid, tid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        out.append(Thread(tid, fields["Name"], cpu_list(fields["Cpus_allowed_list"])))
    return out


def children(pid):
    out = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/task/{tid}/children") as file:
                out += map(int, file.read().split())
    return out


def environ(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = file.read().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def mappings(pid):
    """Returns the mappings of numa_maps, with their end addresses from maps."""
    with open(f"/proc/{pid}/maps") as file:
        ends = {int(a, 16): int(b, 16)
                for a, b in re.findall(r"^(\w+)-(\w+) ", file.read(), re.MULTILINE)}
    out = []
    with open(f"/proc/{pid}/numa_maps") as file:
        for line in file:
            start, policy, *words = line.split()
            if words and words[0].startswith("("):  # "prefer (many):0-1"
                policy += " " + words.pop(0)
            fields = dict(word.split("=", 1) for word in words if "=" in word)
            pages = {int(key[1:]): int(value) for key, value in fields.items()
                     if re.fullmatch(r"N\d+", key)}
            start = int(start, 16)
            name = fields.get("file") or ("heap" if "heap" in words else
                                          "stack" if "stack" in words else "")
            out.append(Mapping(start, ends.get(start, start), policy, pages,
                               int(fields.get("anon", 0)),
                               int(fields.get("kernelpagesize_kB", 4)), name))
    return out


def pages_by_node(pid, ranges):
    """Counts the pages of the ranges on each node, by move_pages as a query. Absent pages are omitted."""
    counts = collections.Counter()
    for start, end in ranges:
        count = (end - start) // PAGE
        pages = (ctypes.c_void_p * count)(*range(start, end, PAGE))
        nodes = (ctypes.c_int * count)()
        if _libc.syscall(SYS_MOVE_PAGES, pid, ctypes.c_ulong(count), pages, None, nodes, 0):
            raise OSError(ctypes.get_errno(), "move_pages")
        counts.update(node for node in nodes if node >= 0)
    return counts


def heap_by_node(pid, ranges):
    """Counts the pages on each node in the mappings that contain the ranges, by numa_maps."""
    counts = collections.Counter()
    for mapping in mappings(pid):
        if any(start < mapping.end and mapping.start < end for start, end in ranges):
            for node, pages in mapping.pages.items():
                counts[node] += pages * mapping.size_kib // 4
    return counts


def share(counts, nodes):
    """Returns the share of the pages that is on these nodes, from 0 to 1. It is 0 if there are no pages."""
    total = sum(counts.values())
    return sum(counts[node] for node in nodes) / total if total else 0.0
