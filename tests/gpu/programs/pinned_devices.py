# SPDX-License-Identifier: Apache-2.0
"""Shows how a second device sees pinned memory that was allocated while only one was in use.

    pinned_devices.py BYTES [SECONDS]

It calls the driver API by ctypes, needs two devices, and prints facts, not times.

SECONDS of work on the device show which calls wait. With 0 there is little work, and waits are not reported."""

import ctypes
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 ns)
{
.reg .u64 %a, %b, %n;
.reg .pred %p;
ld.param.u64 %n, [ns];
mov.u64 %a, %globaltimer;
again:
mov.u64 %b, %globaltimer;
sub.u64 %b, %b, %a;
setp.lt.u64 %p, %b, %n;
@%p bra again;
ret;
}
.visible .entry raise(.param .u64 at)
{
.reg .u64 %a;
.reg .u32 %v;
ld.param.u64 %a, [at];
ld.global.u32 %v, [%a];
add.u32 %v, %v, 1;
st.global.u32 [%a], %v;
ret;
}
"""
BUSY = float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
ATTRIBUTES = {"context": 1, "type": 2, "device": 3, "host": 4, "sync": 6, "managed": 8, "ordinal": 9,
              "start": 11, "size": 12, "mapped": 13, "access": 16}
cu = ctypes.CDLL("libcuda.so.1")


def must(code):
    if code:
        sys.exit(f"CUDA error {code}")


class Device:
    """A primary context with a stream, the kernels and some memory."""

    def __init__(self, ordinal, size):
        self.context, self.stream, module = c_void_p(), c_void_p(), c_void_p()
        self.spin, self.raises, self.memory = c_void_p(), c_void_p(), c_uint64()
        must(cu.cuDevicePrimaryCtxRetain(byref(self.context), ordinal))
        self.enter()
        must(cu.cuStreamCreate(byref(self.stream), 1))
        must(cu.cuModuleLoadData(byref(module), PTX))
        must(cu.cuModuleGetFunction(byref(self.spin), module, b"spin"))
        must(cu.cuModuleGetFunction(byref(self.raises), module, b"raise"))
        must(cu.cuMemAlloc_v2(byref(self.memory), c_size_t(size)))

    def enter(self):
        must(cu.cuCtxSetCurrent(self.context))

    def launch(self, function, value):
        parameter = c_uint64(value)
        params = (c_void_p * 1)(ctypes.addressof(parameter))
        must(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, self.stream, params, None))

    def busy(self):
        self.launch(self.spin, int((BUSY or 0.01) * 1e9))


def alloc(size, flags):
    block = c_void_p()
    must(cu.cuMemHostAlloc(byref(block), c_size_t(size), flags))
    return block.value


def timed(call):
    start = time.monotonic()
    code = call()
    waited = time.monotonic() - start > BUSY / 2
    return code, "" if not BUSY else "blocks" if waited else "at once"


def describe(name, at, size, contexts):
    flags, device = c_uint(99), c_uint64()
    print(name, "flags", cu.cuMemHostGetFlags(byref(flags), c_void_p(at)), flags.value)
    print(name, "device pointer", cu.cuMemHostGetDevicePointer_v2(byref(device), c_void_p(at), 0),
          device.value - at)
    for what, number in ATTRIBUTES.items():
        value = c_uint64(0)
        code = cu.cuPointerGetAttribute(byref(value), number, c_uint64(at + 5))
        shown = value.value
        if shown in contexts:
            shown = f"of device {contexts.index(shown)}"
        elif at <= shown <= at + size:
            shown = f"+{shown - at}"
        print(name, what, code, shown)


def copies(name, at, size, device):
    """Checks copies after a kernel: whether the call waits, and when the bytes are read or
    written."""
    for way in ("to", "from"):
        ctypes.memset(at, 0xAA, size)
        must(cu.cuMemcpyHtoD_v2(device.memory, c_void_p(at), c_size_t(size)))
        if way == "from":
            ctypes.memset(at, 0xCC, size)
        device.busy()
        copy = ((lambda: cu.cuMemcpyHtoDAsync_v2(device.memory, c_void_p(at), c_size_t(size), device.stream))
                if way == "to" else
                (lambda: cu.cuMemcpyDtoHAsync_v2(c_void_p(at), device.memory, c_size_t(size), device.stream)))
        code, how = timed(copy)
        if way == "to" and BUSY: # without that work, the copy may already have begun
            ctypes.memset(at, 0xBB, size)
        must(cu.cuStreamSynchronize(device.stream))
        ends = (ctypes.c_ubyte * size)()
        if way == "to":
            must(cu.cuMemcpyDtoH_v2(ends, device.memory, c_size_t(size)))
        else:
            ctypes.memmove(ends, at, size)
        print(name, way, "device", code, how, hex(ends[0]), hex(ends[size - 1]))


def kernel(name, at, size, device):
    words = ctypes.cast(c_void_p(at), ctypes.POINTER(c_uint))
    last = size // 4 - 1
    words[0], words[last] = 40, 50
    device.launch(device.raises, at)
    device.launch(device.raises, at + 4 * last)
    print(name, "kernel", cu.cuStreamSynchronize(device.stream), words[0], words[last])


def main():
    large = int(sys.argv[1])
    must(cu.cuInit(0))
    first = Device(0, large)
    cases = [(size, flags) for size in (64 << 10, large) for flags in (0, 1, 2, 3)]
    # Small blocks with different flags would share a mapping, and so have its flags.
    blocks = [(size, flags, alloc(size, flags)) for size, flags in cases if size == large or flags == 0]
    second = Device(1, large)
    contexts = [first.context.value, second.context.value]
    for size, flags, at in blocks:
        for who, device in (("own", first), ("other", second)):
            device.enter()
            name = f"{size} flags {flags} {who}"
            describe(name, at, size, contexts)
            copies(name, at, size, device)
            kernel(name, at, size, device)
            print(name, "register", cu.cuMemHostRegister_v2(c_void_p(at), c_size_t(4096), 0),
                  "unregister", cu.cuMemHostUnregister(c_void_p(at)))
    for size, flags, at in blocks:
        for who, current in (("own", first), ("other", second)):
            for busy in (first, second):
                busy.enter()
                busy.busy()
                current.enter()
                print(f"{size} flags {flags} freed by {who}, device {contexts.index(busy.context.value)} busy",
                      *timed(lambda: cu.cuMemFreeHost(c_void_p(at))))
                for device in (first, second):
                    device.enter()
                    must(cu.cuCtxSynchronize())
                first.enter()
                at = alloc(size, flags)
        must(cu.cuMemFreeHost(c_void_p(at)))
    second.enter()
    at = alloc(large, 0)
    first.enter()
    describe("by the second", at, large, contexts)
    copies("by the second", at, large, first)
    print("by the second", cu.cuMemFreeHost(c_void_p(at)))


if __name__ == "__main__":
    main()
