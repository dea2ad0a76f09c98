# SPDX-License-Identifier: Apache-2.0
"""Creates control groups of version 1 or 2, to limit one program."""

import contextlib
import os
import pathlib
import tempfile

ROOT = pathlib.Path("/sys/fs/cgroup")


class Unavailable(Exception):
    """This machine does not permit such a control group."""


def _unified():
    """Returns the folder of version 2 below which groups with both controllers can be made, or None."""
    root = ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "unified"
    try:
        there = (root / "cgroup.controllers").read_text().split()
    except OSError:
        return None
    return root if {"memory", "cpu"} <= set(there) else None


def _mounted():
    """Mounts version 2 if no version is mounted."""
    if (ROOT / "cgroup.procs").exists() or (ROOT / "memory").is_dir() or os.getuid():
        return None
    folder = tempfile.mkdtemp(prefix="gpufeed-cgroup-")
    if os.system(f"mount -t cgroup2 none {folder} 2>/dev/null"):
        return None
    root = pathlib.Path(folder)
    return root if {"memory", "cpu"} <= set((root / "cgroup.controllers").read_text().split()) else None


class Group:
    """A group with a limit of memory (bytes or None) and a CPU quota (CPUs or None)."""

    def __init__(self, name, memory=None, quota=None):
        self.folders = []
        try:
            unified = _unified() or _mounted()
            if unified:
                (unified / "cgroup.subtree_control").write_text("+memory +cpu")
            for controller in ("memory", "cpu"):
                parent = unified or ROOT / controller
                path = parent / f"gpufeed-{name}-{os.getpid()}"
                path.mkdir(exist_ok=True)
                if path not in self.folders:
                    self.folders.append(path)
            self.unified = bool(unified)
            self.set(memory, quota)
        except OSError as error:
            self.close()
            raise Unavailable(f"no control group here: {error}") from error

    def set(self, memory=None, quota=None):
        if memory is not None:
            (self.folders[0] / ("memory.max" if self.unified else "memory.limit_in_bytes")).write_text(str(memory))
        if quota is not None and self.unified:
            (self.folders[-1] / "cpu.max").write_text(f"{int(quota * 100000)} 100000")
        elif quota is not None:
            (self.folders[-1] / "cpu.cfs_period_us").write_text("100000")
            (self.folders[-1] / "cpu.cfs_quota_us").write_text(str(int(quota * 100000)))

    def peak(self):
        """Returns the maximum of used bytes, or None if the kernel does not report it."""
        file = self.folders[0] / ("memory.peak" if self.unified else "memory.max_usage_in_bytes")
        return int(file.read_text()) if file.exists() else None

    def enter(self):
        """Returns the words that precede a command to run it in the group."""
        joins = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders)
        return ["sh", "-c", f'{joins} && exec "$@"', "sh"]

    def close(self):
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
