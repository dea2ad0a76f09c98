# SPDX-License-Identifier: Apache-2.0
"""Checks behaviour of the driver on which the library relies, and which no row of the transcript shows.

    unrecorded.py [SECONDS]

It calls the driver API by ctypes without the library, and prints facts. It needs one device and about 10 s.

SECONDS of work on the device show which calls wait. With 0 there is little work, and waits are not reported."""

import ctypes
import mmap
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

BUSY = float(sys.argv[1]) if len(sys.argv) > 1 else 0.3
MIB = 1 << 20
PINNED = 64 * MIB
LEGACY, OWN = c_void_p(1), c_void_p(2)
RELAXED = 2
cu = ctypes.CDLL("libcuda.so.1")
kept = []


def must(code):
    if code:
        sys.exit(f"CUDA error {code}")


def timed(call):
    start = time.monotonic()
    code = call()
    waited = time.monotonic() - start > BUSY / 2
    return code, "" if not BUSY else "blocks" if waited else "at once"


def busy(stream, then=None):
    """Puts work on a stream for a while, and then runs the check after it."""
    def work(_):
        time.sleep(BUSY or 0.01)
        if then:
            then()
    kept.append(ctypes.CFUNCTYPE(None, c_void_p)(work))
    must(cu.cuLaunchHostFunc(stream, kept[-1], None))


def pages(size, byte=1):
    """Returns memory of whole pages that is never freed."""
    kept.append(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    at = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
    ctypes.memset(at, byte, size)
    return at


def device(size):
    at = c_uint64()
    must(cu.cuMemAlloc_v2(byref(at), c_size_t(size)))
    return at


def stream(flags):
    made = c_void_p()
    must(cu.cuStreamCreate(byref(made), flags))
    return made


def ends_of(memory, size):
    """Returns the first and the last byte on the device."""
    both = (ctypes.c_ubyte * 2)()
    for i, at in enumerate((0, size - 1)):
        must(cu.cuMemcpyDtoH_v2(byref(both, i), c_uint64(memory.value + at), c_size_t(1)))
    return f"{both[0]:02X} {both[1]:02X}"


def behind_the_legacy_stream():
    """Checks synchronous copies and events after work on the thread's own stream, and on a blocking
    one."""
    for size in (4096, 64 << 10, MIB, 2 * MIB, 4 * MIB, 16 * MIB):
        memory, source = device(size), pages(size, 0xAA)
        busy(LEGACY, lambda at=source, n=size: ctypes.memset(at, 0xBB, n))
        code, how = timed(lambda: cu.cuMemcpyHtoD_v2_ptds(memory, c_void_p(source), c_size_t(size)))
        must(cu.cuCtxSynchronize())
        # AA: read before the legacy stream's work, BB: read after it
        read = ends_of(memory, size) if BUSY else ""
        print(f"own stream behind the legacy one: synchronous pageable copy of {size} to the device", code, how, read)
    for name, on in (("own", OWN), ("blocking", stream(0))):
        event = c_void_p()
        must(cu.cuEventCreate(byref(event), 2))
        busy(LEGACY)
        must(cu.cuEventRecord(event, on))
        print(f"{name} stream behind the legacy one: event query", cu.cuEventQuery(event) if BUSY else "")
        must(cu.cuCtxSynchronize())


def behind_its_own_stream():
    """Finds the size from which an asynchronous copy of pageable memory waits. It is between 2 and 4 MiB."""
    on = stream(1)
    for size in range(2 * MIB, 4 * MIB + 1, 256 << 10):
        memory, source = device(size), pages(size)
        busy(on)
        print(f"asynchronous pageable copy of {size} to the device, behind its stream's work",
              *timed(lambda: cu.cuMemcpyHtoDAsync_v2(memory, c_void_p(source), c_size_t(size), on)))
        must(cu.cuCtxSynchronize())


def green_context(on):
    found, green = c_void_p(), c_void_p()
    if not hasattr(cu, "cuStreamGetCtx_v2"):
        return cu.cuStreamGetCtx(on, byref(found))
    return cu.cuStreamGetCtx_v2(on, byref(found), byref(green))


def state():
    flags, active = c_uint(), c_int()
    return cu.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active))


def retain():
    primary = c_void_p()
    return cu.cuDevicePrimaryCtxRetain(byref(primary), 0) or cu.cuDevicePrimaryCtxRelease_v2(0)


def beside_a_capture(context):
    """Checks whether the library's queries at the first sight of a context end a GLOBAL capture on
    a blocking stream."""
    event, number, value = c_void_p(), c_uint64(), c_uint()
    must(cu.cuEventCreate(byref(event), 2))
    calls = {"context of the legacy stream": lambda: green_context(LEGACY),
             "context of the own stream": lambda: green_context(OWN),
             "flags": lambda: cu.cuCtxGetFlags(byref(value)),
             "id": lambda: cu.cuCtxGetId(context, byref(number)),
             "device": lambda: cu.cuCtxGetDevice(byref(value)),
             "attribute": lambda: cu.cuDeviceGetAttribute(byref(value), 18, 0),
             "state": state,
             "retain and release": retain,
             "event on the legacy stream": lambda: cu.cuEventRecord(event, LEGACY)}
    for relaxed in (False, True):
        for name, call in calls.items():
            capturing, graph, mode = stream(0), c_void_p(), c_int(RELAXED)
            must(cu.cuStreamBeginCapture_v2(capturing, 0))
            if relaxed:
                must(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
            code = call()
            if relaxed:
                must(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
            print(f"beside a capture{', relaxed' if relaxed else ''}: {name}", code, "capture ends with",
                  cu.cuStreamEndCapture(capturing, byref(graph)))
            must(cu.cuStreamDestroy_v2(capturing))


def attributes(at):
    """Checks one query for both the context and the size."""
    what, owner, size = (c_int * 2)(1, 12), c_void_p(), c_size_t()
    into = (c_void_p * 2)(ctypes.addressof(owner), ctypes.addressof(size))
    return cu.cuPointerGetAttributes(2, what, into, c_uint64(at)), owner.value, size.value


def show(name, at, size, first):
    kind, owner, flags = c_uint(), c_void_p(), c_uint()
    code = cu.cuPointerGetAttribute(byref(owner), 1, c_uint64(at))
    print(name, "context", code, "the first" if owner.value == first.value else owner.value)
    print(name, "type", cu.cuPointerGetAttribute(byref(kind), 2, c_uint64(at)), kind.value)
    print(name, "flags", cu.cuMemHostGetFlags(byref(flags), c_void_p(at)), flags.value)
    memory, on = device(size), stream(1)
    ctypes.memset(at, 0xAA, size)
    busy(on, lambda: ctypes.memset(at, 0xBB, size))
    code, how = timed(lambda: cu.cuMemcpyHtoDAsync_v2(memory, c_void_p(at), c_size_t(size), on))
    must(cu.cuStreamSynchronize(on))
    print(name, "asynchronous copy", code, how, ends_of(memory, size) if BUSY else "")


def another():
    """Creates one more context and makes it current."""
    made = c_void_p()
    if hasattr(cu, "cuCtxCreate_v2"):
        must(cu.cuCtxCreate_v2(byref(made), 0, 0))
    else:
        must(cu.cuCtxCreate_v4(byref(made), None, 0, 0))
    return made


def of_a_dead_context(first):
    """Checks whether a registration ends with its context while another context lives."""
    for flags in (0, 1):
        at, flagged = pages(4 * MIB), c_uint()
        gone = another()
        must(cu.cuMemHostRegister_v2(c_void_p(at), c_size_t(4 * MIB), flags))
        must(cu.cuCtxDestroy_v2(gone))
        must(cu.cuCtxSetCurrent(first))
        print(f"registered with flags {flags} in a context that has ended: flags", cu.cuMemHostGetFlags(byref(flagged),
              c_void_p(at)), "register", cu.cuMemHostRegister_v2(c_void_p(at), c_size_t(4 * MIB), flags),
              "unregister", cu.cuMemHostUnregister(c_void_p(at)))


def pinned_blocks():
    """Returns {how it was allocated: pinned memory}."""
    blocks = {}
    for name, flags in (("registered", 0), ("registered PORTABLE", 1)):
        blocks[name] = pages(PINNED)
        must(cu.cuMemHostRegister_v2(c_void_p(blocks[name]), c_size_t(PINNED), flags))
    block = c_void_p()
    must(cu.cuMemHostAlloc(byref(block), c_size_t(PINNED), 0))
    blocks["allocated"] = block.value
    return blocks


def of_another_context(first):
    """Unregisters or frees memory of the first context in a second context of the same device."""
    none = c_void_p()
    blocks, others = pinned_blocks(), pinned_blocks()
    apart = stream(1)
    second = another()
    for name, at in blocks.items():
        show(f"{name}, in a second context:", at, PINNED, first)
    for name, at in blocks.items():
        end = cu.cuMemFreeHost if name == "allocated" else cu.cuMemHostUnregister
        must(cu.cuCtxPopCurrent_v2(byref(none)))
        must(cu.cuCtxSetCurrent(None))
        print(f"{name}, without a context: free or unregister", end(c_void_p(others[name])))
        must(cu.cuCtxSetCurrent(first))
        busy(apart)
        must(cu.cuCtxPushCurrent_v2(second))
        print(f"{name}, in a second context, the first busy: free or unregister", *timed(lambda: end(c_void_p(at))))
        must(cu.cuCtxPopCurrent_v2(byref(none)))
        must(cu.cuCtxSynchronize())
        print(f"{name}: free or unregister again", end(c_void_p(at)))
        must(cu.cuCtxPushCurrent_v2(second))
    must(cu.cuCtxDestroy_v2(second))
    must(cu.cuCtxSetCurrent(first))


def costs():
    """Measures the cost of registering memory for one context, and for all contexts."""
    size = 256 * MIB
    for flags in (0, 1) * 3 if BUSY else (0, 1):
        at = pages(size)
        start = time.monotonic()
        must(cu.cuMemHostRegister_v2(c_void_p(at), c_size_t(size), flags))
        took = time.monotonic() - start
        must(cu.cuMemHostUnregister(c_void_p(at)))
        kept[-1].madvise(mmap.MADV_DONTNEED)
        print(f"registering 256 MiB with flags {flags}", f"{took * 1e3:.1f} ms" if BUSY else "")


def main():
    context = c_void_p()
    must(cu.cuInit(0))
    must(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
    must(cu.cuCtxSetCurrent(context))
    print("pageable, context and size at once:", *attributes(pages(4096)))
    behind_the_legacy_stream()
    behind_its_own_stream()
    beside_a_capture(context)
    of_another_context(context)
    of_a_dead_context(context)
    costs()


if __name__ == "__main__":
    main()
