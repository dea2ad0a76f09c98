# SPDX-License-Identifier: Apache-2.0
"""Verifies placement from outside a process: the CPUs of each thread, by /proc, and the node of each page, by move_pages
and numa_maps. The library's report is not asked."""

import collections
import contextlib

from nodes_machine import proc

NAMES = ("arm", "gpu", "node", "what", "threads", "threads_near", "near", "elsewhere", "policy")
Place = collections.namedtuple("Place", NAMES, defaults=(0,) * 4 + ("",))


def family(pid):
    """Returns the process and all its descendants, such as DataLoader workers."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            found += proc.children(one)
    return found


def threads_of(pids):
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += proc.threads(pid)
    return found


def count_threads(arm, gpu, what, pids, cpus):
    """Counts the threads whose mask lies within the CPUs of the GPU's node."""
    found = threads_of(pids)
    return Place(arm, gpu.index, gpu.node, what, len(found), sum(thread.cpus <= cpus for thread in found))


def policy_of(pid):
    """Returns the main thread's memory policy, which numa_maps shows for a mapping that has none of its own."""
    found = sorted({one.policy for one in proc.mappings(pid) if "/libc.so" in one.name})
    return "/".join(found)


def count_pages(arm, gpu, what, pid, ranges):
    """Counts pages on the GPU's node and elsewhere. The driver's own pinned mappings have no pages that move_pages sees:
    both counts are then 0."""
    counts = proc.pages_by_node(pid, ranges)
    near = counts.get(gpu.node, 0)
    return Place(arm, gpu.index, gpu.node, what, near=near, elsewhere=sum(counts.values()) - near, policy=policy_of(pid))


def count_private(arm, gpu, pid):
    """Counts all private pages of the process by numa_maps: heap, stacks, the library's staging ring."""
    near = elsewhere = 0
    for one in proc.mappings(pid):
        if one.anon and not one.name.startswith("/"):
            for node, pages in one.pages.items():
                size = pages * one.size_kib // 4
                near, elsewhere = (near + size, elsewhere) if node == gpu.node else (near, elsewhere + size)
    return Place(arm, gpu.index, gpu.node, "all private memory", near=near, elsewhere=elsewhere)


def ranges_in(answer):
    """Returns {name: [(start, end)]} of a line such as "pageable=7f00-7f10 pinned=0-0"."""
    found = {}
    for word in answer.split():
        name, _, span = word.partition("=")
        start, _, end = span.partition("-")
        if int(end, 16):
            found[name] = [(int(start, 16), int(end, 16))]
    return found


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "not visible"


HEAD = ("| arm | GPU | its node | what | threads | on the node | 4 KiB pages | on the node | policy |\n"
        "|---|---|---|---|---|---|---|---|---|")


def row(place):
    pages = place.near + place.elsewhere
    is_threads = place.threads > 0
    return (f"| {place.arm} | {place.gpu} | {place.node} | {place.what} | "
            f"{place.threads or ''} | {percent(place.threads_near, place.threads) if is_threads else ''} | "
            f"{'' if is_threads else pages} | {'' if is_threads else percent(place.near, pages)} | {place.policy} |")
