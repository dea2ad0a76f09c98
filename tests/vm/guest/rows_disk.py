# SPDX-License-Identifier: Apache-2.0
"""Copies from mapped files of a disk that returns errors."""

import json
import os
import signal
import subprocess

from program import Program
from rows import NODE1, add_modules, put, row

MIB = 1 << 20
SIZE = 24 * MIB
STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": MIB, "KIT_ALARM": 50}
DISK = "/sys/kernel/config/nullb/nullb0"
FOLDER = "/tmp/disk"
REPORT = "/tmp/report.disk.json"


def mount_disk(machine):
    """Mounts an empty disk in memory, whose blocks can be damaged."""
    add_modules("configfs", "null_blk", parameters=("nr_devices=0",))
    if not os.path.isdir("/sys/kernel/config/nullb"):
        subprocess.run(["mount", "-t", "configfs", "configfs", "/sys/kernel/config"], check=True)
    os.mkdir(DISK)
    machine.undo.append(lambda: os.rmdir(DISK))
    for key, value in ("size", "64"), ("memory_backed", "1"), ("blocksize", "4096"), ("power", "1"):
        put(f"{DISK}/{key}", value)
    subprocess.run(["mke2fs", "-b", "4096", "/dev/nullb0"], check=True, stdout=subprocess.DEVNULL)
    os.makedirs(FOLDER, exist_ok=True)
    machine._mount("-t", "ext4", "/dev/nullb0", FOLDER)


def first_error(path):
    """Returns the offset of the first page that cannot be read, or None."""
    put("/proc/sys/vm/drop_caches", "3")
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for offset in range(0, SIZE, 64 << 10):  # half of what is damaged
            try:
                os.pread(file.fileno(), 4096, offset)
            except OSError:
                return offset
    return None


def copy(machine, *how, **env):
    """Returns exit code and output of a program that copies the file."""
    put("/proc/sys/vm/drop_caches", "3")
    program = Program("/vm/mapped", "damaged", FOLDER, *how, env=machine.env(NODE1, **env))
    return program.end(), program.lines


def fill_disk(machine):
    """Writes the file that the program copies."""
    mount_disk(machine)
    with open(f"{FOLDER}/damaged", "wb") as file:
        for number in range(SIZE // MIB):
            file.write(bytes([number + 1]) * MIB)
        os.fsync(file.fileno())


def damage_disk(machine):
    """Lets reads of 128 KiB within the file fail."""
    fill_disk(machine)
    put(f"{DISK}/badblocks", f"+{20 * MIB // 512}-{20 * MIB // 512 + 255}")
    error = first_error(f"{FOLDER}/damaged")
    assert error and 9 * MIB < error < SIZE, error


@row("two")
def row_copies_from_a_disk_are_staged(machine):
    """The other rows of this module copy from the same disk."""
    fill_disk(machine)
    plain = copy(machine, preload=False)
    assert plain[0] == 0 and len(plain[1]) == 4, plain
    assert copy(machine, **STAGED, GPUFEED_REPORT=REPORT) == plain
    with open(REPORT) as file:
        transfers = json.load(file)["transfers"]
    assert transfers["to_device"]["staged"]["bytes"] >= SIZE, transfers["to_device"]


@row("two")
def row_a_disk_that_returns_errors_ends_a_copy_as_natively(machine):
    """The copy of the damaged part raises SIGBUS on the caller's thread, after the same copies as without the library. Before
    Linux 6.9, MADV_POPULATE_READ would repeat reading it for ever."""
    damage_disk(machine)
    plain = copy(machine, preload=False)
    assert plain[0] == -signal.SIGBUS and 0 < len(plain[1]) < 3, plain
    assert copy(machine, **STAGED) == plain
    plain = copy(machine, "catch", preload=False)
    assert plain[0] == 50 + signal.SIGBUS and plain[1][-1].endswith("on the caller's thread"), plain
    assert copy(machine, "catch", **STAGED) == plain
