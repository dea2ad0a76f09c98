# SPDX-License-Identifier: Apache-2.0
"""Shows how a forked child and its parent see pinned memory, and which calls wait for a busy device.

    pinned_fork.py BYTES

It calls the driver API by ctypes, and prints facts, not times."""

import ctypes
import os
import sys
import time

PTX = (b".version 7.0\n.target sm_80\n.address_size 64\n"
       b".visible .entry spin(.param .u64 ns)\n{\n.reg .u64 %a, %b, %n;\n.reg .pred %p;\n"
       b"ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"
       b"again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"
       b"setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n")
KIB, MIB = 1 << 10, 1 << 20
BUSY = 0.4  # seconds
cu = ctypes.CDLL("libcuda.so.1")


def must(code):
    if code:
        sys.exit(f"CUDA error {code}")


def pointer():
    return ctypes.c_void_p()


def alloc(size):
    block = pointer()
    must(cu.cuMemHostAlloc(ctypes.byref(block), ctypes.c_size_t(size), 0))
    return block


def view(block, size):
    return (ctypes.c_ubyte * size).from_address(block.value)


def spots(size):
    """Returns the first byte, the last byte, and samples in between: to read all of 8 GiB takes
    long in Python."""
    return sorted({0, size - 1, *range(0, size, max(4096, size // 1024))})


def visible(size):
    block = alloc(size)
    at = view(block, size)
    print(size, "zero at first", all(at[i] == 0 for i in spots(size)))
    for i in spots(size):
        at[i] = i % 251
    child = os.fork()
    if child == 0:
        good = all(at[i] == i % 251 for i in spots(size))
        for i in spots(size):
            at[i] = (i + 7) % 251
        os._exit(10 if good else 11)
    _, status = os.waitpid(child, 0)
    print(size, "child", os.waitstatus_to_exitcode(status))
    print(size, "parent sees the child's writes", all(at[i] == (i + 7) % 251 for i in spots(size)))
    before = at[0]
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go[0], 1)
        os._exit(20 if at[0] == (before + 1) % 251 and at[size - 1] == 99 else 21)
    at[0], at[size - 1] = (before + 1) % 251, 99
    os.write(go[1], b"x")
    _, status = os.waitpid(child, 0)
    print(size, "child sees later writes", os.waitstatus_to_exitcode(status))
    for end in (*ready, *go):
        os.close(end)
    # The device reads the parent's bytes, and the parent reads the device's.
    device = ctypes.c_uint64()
    length = min(size, 64 * MIB)
    must(cu.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(length)))
    last = block.value + size - length
    must(cu.cuMemcpyHtoD_v2(device, ctypes.c_void_p(last), ctypes.c_size_t(length)))
    at[size - 1] = 1
    must(cu.cuMemcpyDtoH_v2(ctypes.c_void_p(last), device, ctypes.c_size_t(length)))
    print(size, "round trip", at[size - 1])
    must(cu.cuMemFree_v2(device))
    print(size, "free", cu.cuMemFreeHost(block), cu.cuMemFreeHost(block))


def waits(name, stream, call):
    function = waits.function
    duration = ctypes.c_uint64(int(BUSY * 1e9))
    params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(duration), ctypes.c_void_p))
    must(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, None))
    start = time.monotonic()
    code = call()
    took = time.monotonic() - start
    must(cu.cuCtxSynchronize())
    print(name, code, "blocks" if took > BUSY / 2 else "at once")


def busy(sizes):
    stream, module, waits.function = pointer(), pointer(), pointer()
    must(cu.cuStreamCreate(ctypes.byref(stream), 1))
    must(cu.cuModuleLoadData(ctypes.byref(module), PTX))
    must(cu.cuModuleGetFunction(ctypes.byref(waits.function), module, b"spin"))
    for size in sizes:
        block, other = alloc(size), alloc(size)
        waits(f"{size} free", stream, lambda: cu.cuMemFreeHost(block))
        # Freed memory must not be reused while the device may still write to it.
        waits(f"{size} free and get", stream, lambda: (cu.cuMemFreeHost(other), alloc(size).value is None)[0])


def main():
    device, context = ctypes.c_int(), pointer()
    must(cu.cuInit(0))
    must(cu.cuDeviceGet(ctypes.byref(device), 0))
    must(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    must(cu.cuCtxSetCurrent(context))
    large = int(sys.argv[1])
    for size in (4 * KIB, MIB, 3 * MIB + 12288, 64 * MIB, large):
        if size <= large:
            visible(size)
    busy([4 * KIB, MIB, min(64 * MIB, large)])


if __name__ == "__main__":
    main()
