# SPDX-License-Identifier: Apache-2.0
"""Reads /proc of a process and its descendants while they run, to see which CPUs each thread may
use. It does not use the library, so it can verify what the library reports.
"""

import collections
import os
import threading
import time

# libcuda's own threads, by their names.
DRIVER = ("cuda", "nvidia-")
OURS = ("gpufeed",)


def parents():
    result = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    result[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    return result


def tree(root):
    children = collections.defaultdict(list)
    for pid, parent in parents().items():
        children[parent].append(pid)
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children[pid]
    return found


def threads(pid):
    """Yields (tid, name, allowed CPUs) of each thread of a process."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for tid in tids:
        try:
            with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8", errors="replace") as file:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            if fields["State"][0] in "ZX":
                continue
            yield int(tid), fields["Name"], fields["Cpus_allowed_list"]
        except (OSError, KeyError, ValueError):
            pass


class Watch:
    """Samples until stop(). `seen` maps (pid, tid) to a list of the changes: (time, name, CPUs)."""

    def __init__(self, root, interval=0.2):
        self.root, self.interval = root, interval
        self.seen, self.last = {}, {}
        self.count = 0
        self.begin = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self):
        while not self._end.wait(self.interval):
            at = time.monotonic() - self.begin
            self.count += 1
            for pid in tree(self.root):
                for tid, name, cpus in threads(pid):
                    history = self.seen.setdefault((pid, tid), [])
                    if not history or history[-1][1:] != (name, cpus):
                        history.append((at, name, cpus))
                    self.last[pid, tid] = at

    def stop(self):
        self._end.set()
        self._thread.join()

    def when(self, cpus, root=None):
        """Returns the time at which a thread was first seen on these CPUs, or None."""
        return min((at for (pid, _), history in self.seen.items() if root in (None, pid)
                    for at, _, mask in history if mask == cpus), default=None)

    def elsewhere(self, cpus, after, settle=1.0, pids=None):
        """Returns threads of the program that were on other CPUs for more than `settle` seconds after that time:
        [(pid, tid, name, CPUs, seconds)]. Threads of the driver and the library do not count."""
        found = []
        for (pid, tid), history in self.seen.items():
            if pids is not None and pid not in pids:
                continue
            ends = [at for at, _, _ in history[1:]] + [self.last[pid, tid]]
            for (at, name, mask), end in zip(history, ends):
                span = end - max(at, after)
                if mask != cpus and span > settle and not name.startswith(DRIVER + OURS):
                    found.append((pid, tid, name, mask, round(span, 1)))
        return found

    def masks(self):
        """Returns {last name: {last CPUs: number of threads}}."""
        result = collections.defaultdict(collections.Counter)
        for history in self.seen.values():
            result[history[-1][1]][history[-1][2]] += 1
        return result

    def table(self):
        lines = [f"{self.count} samples, {len({pid for pid, _ in self.seen})} processes, "
                 f"{len(self.seen)} threads; last CPUs by name of thread:"]
        for name, masks in sorted(self.masks().items()):
            lines.append(f"  {name:16} " + ", ".join(f"{n} on {cpus}" for cpus, n in masks.items()))
        return "\n".join(lines)
