# SPDX-License-Identifier: Apache-2.0
"""Programs that the rows start, stop at their `say`, and inspect."""

import collections
import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time

PROGRAM = "/vm/program"
REFUSE = "/vm/refuse"

# Modes of set_mempolicy(2), which numactl calls before it runs a program.
PREFERRED, BIND, INTERLEAVE = 1, 2, 3
SYS_SET_MEMPOLICY = 238
_libc = ctypes.CDLL(None, use_errno=True)


def set_policy(mode, *nodes):
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    if _libc.syscall(SYS_SET_MEMPOLICY, mode, ctypes.byref(mask), ctypes.c_ulong(64)):
        raise OSError(ctypes.get_errno(), "set_mempolicy")


Stop = collections.namedtuple("Stop", "word pid")


class Program:
    """
    A command that the rows observe. Standard error goes to a file, which errors() reads. `policy` has the mode and
    nodes that numactl would set."""

    live = []

    def __init__(self, *command, env=None, start_mask=None, cgroup=None, policy=None):
        self.log = tempfile.TemporaryFile("w+")
        self.ranges = collections.defaultdict(list)
        self.stops = []
        self.rest = b""
        self.lines = []

        def prepare():
            if cgroup:
                with open(f"{cgroup}/cgroup.procs", "w") as file:
                    file.write("0")
            if start_mask:
                os.sched_setaffinity(0, start_mask)
            if policy:
                set_policy(*policy)

        self.process = subprocess.Popen([str(word) for word in command], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, preexec_fn=prepare, start_new_session=True)
        Program.live.append(self)

    @property
    def pid(self):
        return self.process.pid

    def at(self, word, count=1, timeout=40):
        """Waits until `count` processes have printed the word. Returns their pids in order."""
        end = time.monotonic() + timeout
        while True:
            found = [stop.pid for stop in self.stops if stop.word == word]
            if len(found) >= count:
                return found[0] if count == 1 else found
            if not self._read(end - time.monotonic()):
                raise RuntimeError(f"never said {word!r} (exit code {self.process.poll()})\n"
                                   + "\n".join(self.lines[-5:]) + "\n" + self.errors())

    def go(self, *pids):
        for pid in pids or [self.pid]:
            self.stops = [stop for stop in self.stops if stop.pid != pid]
            os.kill(pid, signal.SIGUSR1)

    def end(self, timeout=40):
        """Reads the output to its end; returns the exit code."""
        end = time.monotonic() + timeout
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(timeout=max(1, end - time.monotonic()))

    def _read(self, timeout):
        out = self.process.stdout.fileno()
        if timeout <= 0 or not select.select([out], [], [], timeout)[0]:
            return False
        data = os.read(out, 65536)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        return bool(data)

    def _take(self, line):
        words = line.split()
        self.lines.append(line)
        if words[:1] == ["range"] and len(words) == 4:
            self.ranges[words[1]].append((int(words[2], 16), int(words[3], 16)))
        elif words[:1] == ["at"] and len(words) == 3:
            self.stops.append(Stop(words[1], int(words[2])))

    def errors(self):
        # The program writes to the same open file, so reading must not move its offset.
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()

    @classmethod
    def kill_all(cls):
        for program in cls.live:
            program.kill()
        cls.live = []
