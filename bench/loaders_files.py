# SPDX-License-Identifier: Apache-2.0
"""Brings files into the page cache for bench/loaders.py, and drops them from it."""

import contextlib
import ctypes
import mmap
import os
import threading

import arms

MIB = 1 << 20


def resident(path):
    """Returns the share of a file that is in the page cache."""
    libc, size = ctypes.CDLL(None, use_errno=True), os.path.getsize(path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as area:
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        states, start = (ctypes.c_ubyte * pages)(), ctypes.c_char.from_buffer(area)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), states)
        del start
    some = bytes(states)[::61]
    return 1.0 if failed else sum(state & 1 for state in some) / len(some)


def files_of(path):
    return sorted(path.glob("*.safetensors")) if path.is_dir() else [path]


def drop(path):
    """Drops a file, or a folder's files, from the page cache."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    left = max(map(resident, files_of(path)))
    if left > 0.02 and os.geteuid() == 0:
        with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("1")
        left = max(map(resident, files_of(path)))
    if left > 0.02 and not arms.DRY:
        raise RuntimeError(f"{left:.0%} of {path} stays in the page cache")


def bring_in(path):
    """Reads files, so that they are in the page cache."""
    def read(file):
        with open(file, "rb", buffering=0) as source:
            buffer = bytearray(16 * MIB)
            while source.readinto(buffer):
                pass
    readers = [threading.Thread(target=read, args=(file,)) for file in files_of(path)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
