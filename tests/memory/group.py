# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups below this process's own, version 1 or 2, with a limit and the highest usage.

group.py LIMIT_MIB COMMAND...: runs a command in such a cgroup (0: no limit), and prints its exit code, the highest
usage and the processes that the kernel killed."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time


class NoGroup(Exception):
    """This machine does not permit a memory cgroup."""


def own_group():
    """Returns the folder in which a memory cgroup can be created, and whether it is of version 1."""
    lines = pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), True
    path = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), None)
    if path is None:
        raise NoGroup("no control group")
    return pathlib.Path("/sys/fs/cgroup" + path), False


class Group:
    """The files of a memory cgroup."""

    def __init__(self, folder, first):
        self.folder, self.first = folder, first

    def limit(self, mib):
        (self.folder / ("memory.limit_in_bytes" if self.first else "memory.max")).write_text(str(mib << 20), encoding="ascii")

    def highest_mib(self):
        name = "memory.max_usage_in_bytes" if self.first else "memory.peak"
        return int((self.folder / name).read_text(encoding="ascii")) >> 20

    def killed(self):
        name = "memory.oom_control" if self.first else "memory.events"
        lines = (self.folder / name).read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def members(self):
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text(encoding="ascii").split()]

    def enter(self):
        """For a child before exec."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


@contextlib.contextmanager
def memory_group(mib):
    """Creates a memory cgroup; a limit of 0 means none. At the end it kills the processes that are left."""
    parent, first = own_group()
    folder = parent / f"gpufeed-memory-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
        group = Group(folder, first)
        if mib:
            group.limit(mib)
        group.highest_mib()
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise NoGroup(f"no limited group can be made in {parent}: {error.strerror}") from error
    try:
        yield group
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                for pid in group.members():
                    os.kill(pid, 9)
                folder.rmdir()
                break
            time.sleep(0.05)


def run_in_group(mib, command, env=None, timeout=300):
    """Returns {"code", "highest", "killed", "out"}."""
    with memory_group(mib) as group:
        with subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, preexec_fn=group.enter,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                out, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                out, _ = process.communicate()
        return {"code": process.returncode, "highest": group.highest_mib(), "killed": group.killed(), "out": out}


if __name__ == "__main__":
    print(json.dumps(run_in_group(int(sys.argv[1]), sys.argv[2:])))
