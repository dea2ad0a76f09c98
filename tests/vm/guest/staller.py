# SPDX-License-Identifier: Apache-2.0
"""A program whose realloc copies: staller.py MIB ROUNDS. It stops before each copy and after it."""

import ctypes
import signal
import sys

from worker import say

libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    size = int(sys.argv[1]) << 20
    for _ in range(int(sys.argv[2])):
        block = libc.malloc(size)
        ctypes.memset(block, 1, size)
        fence = libc.malloc(1 << 20)
        say("filled")
        moved = libc.realloc(block, 2 * size)
        say("moved")
        libc.free(moved)
        libc.free(fence)


if __name__ == "__main__":
    main()
