# SPDX-License-Identifier: Apache-2.0
"""A thread that pins batches as a DataLoader's does: pin_batch.py CASE LIBRARY

LIBRARY is that of torch_cpu.c, or "torch". Each batch is the begin of shared memory of 66 MiB, which is unmapped in the end. Prints
a checksum of each copy, and what the thread sees of OpenMP."""
import ctypes
import faulthandler
import mmap
import os
import sys
import threading
import time
import zlib

MIB = 1 << 20
PATH = "/opt/torch/utils/data/_utils/pin_memory.py"
case, library = sys.argv[1:3]
cuda = ctypes.CDLL("libcuda.so.1")
context, pinned = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0


def look(rounds):
    """Lets the library start its threads, and look for pointers."""
    for _ in range(rounds):
        assert cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(9 * MIB), 0) == 0 and cuda.cuMemFreeHost(pinned) == 0
        time.sleep(0.05)


def load_slowly():
    """The library looks for pointers while the loader has filled them, but not closed their page. CDLL would keep Python's lock."""
    assert cuda.cuCtxSetCurrent(context) == 0
    look(20)
    gate, opener = os.pipe()
    os.dup2(gate, 77)
    thread = threading.Thread(target=ctypes.CDLL(None).dlopen, args=(library.encode(), os.RTLD_NOW))
    thread.start()
    look(30)
    os.write(opener, b"x")
    thread.join()


if library == "torch":
    import torch
    threads, count, copy = torch.set_num_threads, torch.get_num_threads, torch.Tensor.copy_

    def view(memory, size):
        return torch.frombuffer(memory, dtype=torch.uint8)[:size]
else:
    if case == "slow":
        load_slowly()
    openmp = ctypes.CDLL(library)
    if case == "copies":
        other_copy = ctypes.CDLL(library.replace(".own", ""))
    threads, count, copy = openmp.set_num_threads, openmp.get_num_threads, openmp.copy_to

    def view(memory, size):
        return (ctypes.c_char * size).from_buffer(memory)

# The innermost Python frame decides, and functions in C have none. PyTorch's function calls Tensor.pin_memory in its second line, and
# elsewhere methods of the program's own.
ARGUMENTS = "to, data" if library == "torch" else "to, data, len(data)"
PIN = f"""
def pin_memory(to, data):
    if data is not None:
        return copy({ARGUMENTS})
def other(to, data):
    if data is not None:
        return copy({ARGUMENTS})
def count_in(pin_memory):
    if pin_memory is not None:
        return count()
"""
COUNT = """
def pin_memory():
    if count is not None:
        return count()
"""
METHOD = """
def pin_memory():
    if count is None:
        return None
    return count()
"""


def count_without_lines():
    return count()


# The library cannot tell the line of such a frame.
count_without_lines.__code__ = count_without_lines.__code__.replace(co_linetable=b"")


def functions(path, text=PIN, count=count):
    there = {"copy": copy, "count": count}
    exec(compile(text, path, "exec"), there)
    return there


def pin(function, to, batch, size):
    """Returns what the function found wrong, and a checksum of the copied bytes."""
    ctypes.memset(to, 0, size)
    target = (ctypes.c_char * size).from_address(to)
    wrong = function(view(target, size), view(batch, size))
    return wrong if library != "torch" else 0, zlib.crc32(target)


def receive(rounds, size, number):
    threads(number)
    assert cuda.cuCtxSetCurrent(context) == 0
    there, elsewhere = functions(PATH), functions("/opt/own/pin_memory.py")
    for turn in range(rounds):
        assert cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(9 * MIB), 0) == 0  # lets the library look for pointers
        batch = mmap.mmap(-1, size)
        batch.write(bytes([turn + 1, 7, 9, 250 - turn]) * (2 * MIB + turn))
        if case == "busy":
            results = [count() for _ in range(20)]
        if case == "refused":
            faulthandler.enable()
            results = [functions(PATH, COUNT)["pin_memory"]() for _ in range(20)]
            faulthandler.disable()
        results = [pin(there["pin_memory"], pinned.value, batch, 8 * MIB + turn)]
        if number != 1:
            results.append(functions(PATH, COUNT)["pin_memory"]())
        results += [functions(PATH, METHOD)["pin_memory"](), functions(PATH, COUNT, count_without_lines)["pin_memory"]()]
        results += [there["count_in"](0), count()]
        results += [pin(f["other" if f is there else "pin_memory"], pinned.value, batch, MIB) for f in (there, elsewhere)]
        if case == "fork" and turn % 5 == 4:
            child = os.fork()
            if not child:
                os._exit(pin(there["pin_memory"], pinned.value, batch, MIB)[1] & 0x7f)
            results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(turn, *results, flush=True)
        batch.close()
        assert cuda.cuMemFreeHost(pinned) == 0
        stop.wait(0.05)


stop = threading.Event()
if case == "handler":
    faulthandler.enable()
thread = threading.Thread(target=receive, args=(12, (34 if case == "small" else 66) * MIB, 2 if case == "two" else 1))
thread.start()
thread.join()
