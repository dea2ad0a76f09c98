#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feeds a GPU as a training job does, but without a framework. Worker processes make batches. The main
process copies each batch to the GPU, computes on it, reads it back and checks its sum.

It needs only the CUDA driver, which it calls through ctypes. It also runs on the tests' simulated driver:

    LD_LIBRARY_PATH=build/tests/sim LD_PRELOAD=build/src/preload/libgpufeed.so examples/feed.py
"""

import argparse
import ctypes
import multiprocessing
import sys
import time

KERNELS = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %begin, %now, %ns;
    .reg .pred %more;
    ld.param.u64 %ns, [ns];
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %more, %now, %ns;
    @%more bra again;
    ret;
}
"""

STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2


class Driver:
    """Calls libcuda by its exported names. A failed call raises an exception."""

    NAMES = {
        "cuInit": [ctypes.c_uint],
        "cuDeviceGetName": [ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
        "cuDevicePrimaryCtxRetain": [ctypes.c_void_p, ctypes.c_int],
        "cuDevicePrimaryCtxRelease_v2": [ctypes.c_int],
        "cuCtxSetCurrent": [ctypes.c_void_p],
        "cuModuleLoadData": [ctypes.c_void_p, ctypes.c_char_p],
        "cuModuleGetFunction": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p],
        "cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t],
        "cuMemFree_v2": [ctypes.c_uint64],
        "cuMemHostAlloc": [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint],
        "cuMemFreeHost": [ctypes.c_void_p],
        "cuMemcpyHtoDAsync_v2": [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t,
                                 ctypes.c_void_p],
        "cuMemcpyDtoH_v2": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t],
        "cuStreamCreate": [ctypes.c_void_p, ctypes.c_uint],
        "cuStreamSynchronize": [ctypes.c_void_p],
        "cuStreamDestroy_v2": [ctypes.c_void_p],
        "cuEventCreate": [ctypes.c_void_p, ctypes.c_uint],
        "cuEventRecord": [ctypes.c_void_p, ctypes.c_void_p],
        "cuEventSynchronize": [ctypes.c_void_p],
        "cuEventDestroy_v2": [ctypes.c_void_p],
        "cuLaunchKernel": [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3,
    }

    def __init__(self):
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            sys.exit(f"{error}; LD_LIBRARY_PATH=build/tests/sim selects the simulated driver")
        for name, arguments in self.NAMES.items():
            entry = getattr(library, name)
            entry.argtypes = arguments
            entry.errcheck = self._check
            setattr(self, name, entry)

    @staticmethod
    def _check(result, entry, _arguments):
        if result:
            raise RuntimeError(f"{entry.__name__} failed with {result}")
        return result

    def make(self, name, *arguments, kind=ctypes.c_void_p):
        """Calls a function that stores its result through its first argument. Returns the result."""
        answer = kind()
        getattr(self, name)(ctypes.byref(answer), *arguments)
        return answer


def no_step(_number):
    """Replaces gpufeed_step if libgpufeed is not preloaded."""


# Marks steps, so that the report contains the time per step.
mark_step = getattr(ctypes.CDLL(None), "gpufeed_step", no_step)
if mark_step is not no_step:
    mark_step.argtypes, mark_step.restype = [ctypes.c_uint64], None


class Slot:
    """Device memory for one batch, and an event that tells when it can be reused."""

    def __init__(self, cuda, size, pin):
        self.pinned = cuda.make("cuMemHostAlloc", size, 0) if pin else None
        self.memory = cuda.make("cuMemAlloc_v2", size, kind=ctypes.c_uint64)
        self.free = cuda.make("cuEventCreate", EVENT_DISABLE_TIMING)
        self.expected = None

    def release(self, cuda):
        cuda.cuEventDestroy_v2(self.free)
        cuda.cuMemFree_v2(self.memory)
        if self.pinned:
            cuda.cuMemFreeHost(self.pinned)


def make_batch(number, size):
    """Makes bytes that depend only on the number, so that each run has the same checksum."""
    pattern = bytes((number * 31 + i * 7) & 0xFF for i in range(4096))
    return (pattern * (size // len(pattern) + 1))[:size]


def worker(numbers, batches, size):
    """Makes batches until it receives None. Does not use CUDA, which does not work in a forked child."""
    for number in iter(numbers.get, None):
        batches.put((number, make_batch(number, size)))


def checksum(data):
    """A cheap checksum: the sum of every 97th 64-bit word."""
    words = memoryview(data).cast("B")
    words = words[:len(words) // 8 * 8].cast("Q")
    return sum(words[::97]) & 0xFFFFFFFFFFFFFFFF


class Device:
    """Device 0 with one stream and two slots, which are used in turn."""

    def __init__(self, size, compute_us, pin):
        self.cuda = Driver()
        self.cuda.cuInit(0)
        name = ctypes.create_string_buffer(128)
        self.cuda.cuDeviceGetName(name, len(name), 0)
        self.name = name.value.decode()
        self.cuda.cuCtxSetCurrent(self.cuda.make("cuDevicePrimaryCtxRetain", 0))
        self.stream = self.cuda.make("cuStreamCreate", STREAM_NON_BLOCKING)
        module = self.cuda.make("cuModuleLoadData", KERNELS)
        self.spin = self.cuda.make("cuModuleGetFunction", module, b"spin")
        self.nanoseconds = ctypes.c_uint64(compute_us * 1000)
        self.slots = [Slot(self.cuda, size, pin) for _ in range(2)]
        self.back = ctypes.create_string_buffer(size)
        self.sum = 0

    def feed(self, turn, data):
        """Checks the slot's previous batch, copies a new batch into the slot, and starts the computation."""
        slot = self.slots[turn % len(self.slots)]
        self.finish(slot)
        slot.expected = checksum(data)
        source = data
        if slot.pinned:
            source = slot.pinned
            ctypes.memmove(source, data, len(data))
        self.cuda.cuMemcpyHtoDAsync_v2(slot.memory, source, len(data), self.stream)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.nanoseconds))
        self.cuda.cuLaunchKernel(self.spin, 1, 1, 1, 1, 1, 1, 0, self.stream, arguments, None)
        self.cuda.cuEventRecord(slot.free, self.stream)

    def finish(self, slot):
        if slot.expected is None:
            return
        self.cuda.cuEventSynchronize(slot.free)
        self.cuda.cuMemcpyDtoH_v2(self.back, slot.memory, len(self.back))
        seen = checksum(self.back)
        if seen != slot.expected:
            raise RuntimeError(f"the batch on the device has the checksum {seen:#x} instead of {slot.expected:#x}")
        self.sum = (self.sum + seen) & 0xFFFFFFFFFFFFFFFF
        slot.expected = None

    def close(self):
        for slot in self.slots:
            self.finish(slot)
            slot.release(self.cuda)
        self.cuda.cuStreamDestroy_v2(self.stream)
        self.cuda.cuDevicePrimaryCtxRelease_v2(0)


def at_least_one(text):
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is less than 1")
    return count


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--batch-mib", type=float, default=4)
    parser.add_argument("--workers", type=at_least_one, default=2)
    parser.add_argument("--compute-us", type=int, default=2000, help="GPU time per batch")
    parser.add_argument("--pin", action="store_true", help="copy batches from pinned memory")
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"], default="fork")
    parser.add_argument("--device-first", action="store_true",
                        help="create the CUDA context before the workers, as many scripts do")
    return parser.parse_args()


def main():
    options = parse()
    size = max(4096, int(options.batch_mib * 2**20) // 4096 * 4096)
    context = multiprocessing.get_context(options.start_method)
    numbers, batches = context.Queue(), context.Queue(maxsize=2 * options.workers)
    device = Device(size, options.compute_us, options.pin) if options.device_first else None
    workers = [context.Process(target=worker, args=(numbers, batches, size), daemon=True)
               for _ in range(options.workers)]
    for process in workers:
        process.start()
    for number in range(options.batches):
        numbers.put(number)
    for _ in workers:
        numbers.put(None)

    device = device or Device(size, options.compute_us, options.pin)
    begin = time.monotonic()
    for turn in range(options.batches):
        mark_step(turn + 1)
        _number, data = batches.get()
        device.feed(turn, data)
    mark_step(0)
    device.close()
    seconds = time.monotonic() - begin
    for process in workers:
        process.join()

    print(f"{options.batches} batches of {size / 2**20:g} MiB on {device.name}: "
          f"{options.batches / seconds:.1f} batches/s")
    print(f"checksum {device.sum:016x}")


if __name__ == "__main__":
    main()
