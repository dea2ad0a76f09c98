# SPDX-License-Identifier: Apache-2.0
"""Moves arrays in each of CuPy's ways. Prints the bytes that arrived."""

import ctypes
import hashlib

import cupy
import numpy

MIB = 1 << 20


def digest(array):
    return hashlib.blake2b(numpy.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def say(name, array, expected):
    print(name, digest(array), "" if numpy.array_equal(array, expected) else "WRONG", flush=True)


def made_up(size, seed):
    return numpy.random.default_rng(seed).integers(0, 200, size, dtype=numpy.uint8)


def main():
    for size in (1, 4097, MIB, 5 * MIB + 3, 64 * MIB, 130 * MIB):
        host = made_up(size, size)
        there = cupy.asarray(host)
        say(f"asarray {size}", there.get(), host)
        out = numpy.empty_like(host)
        there.get(out=out)
        say(f"get out {size}", out, host)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            later = cupy.empty_like(there)
            later.set(host, stream=stream)
            copy = host.copy()
            host.fill(1)
            back = numpy.zeros_like(host)
            later.get(out=back, stream=stream, blocking=True)
        say(f"stream {size}", back, copy)
        memory = cupy.cuda.alloc_pinned_memory(size)
        pinned = numpy.frombuffer(memory, numpy.uint8, size)
        pinned[...] = copy
        there.set(pinned)
        say(f"pinned {size}", there.get(), copy)
        raw = cupy.cuda.alloc(size)
        raw.copy_from_host(copy.ctypes.data_as(ctypes.c_void_p), size)
        # such a small copy may end after the call, and the other stream does not wait for it
        cupy.cuda.Stream.null.synchronize()
        raw.copy_to_host_async(out.ctypes.data_as(ctypes.c_void_p), size, stream)
        stream.synchronize()
        say(f"raw {size}", out, copy)
        del pinned, memory
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    say("after freeing", cupy.asarray(made_up(MIB, 1)).get(), made_up(MIB, 1))
    print("sum", int(cupy.asarray(made_up(20 * MIB, 2)).astype(cupy.int64).sum()))


main()
