# SPDX-License-Identifier: Apache-2.0
"""Runs two ranks on NCCL, as two threads of one process with a GPU each. One rank's stream waits in a
collective, which the other rank enters only after its copies. Prints the bytes that arrived."""

import ctypes
import glob
import hashlib
import os
import threading

import torch

MIB = 1 << 20
TURNS = 12


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def library():
    folder = os.path.dirname(os.path.dirname(torch.__file__))
    found = sorted(glob.glob(folder + "/nvidia/*/lib/libnccl.so.2"))
    return ctypes.CDLL(found[0] if found else "libnccl.so.2")


nccl = library()
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
unique = UniqueId()
results, errors = {}, []


def must(code):
    if code:
        raise RuntimeError(f"NCCL error {code}")


def made_up(size, seed):
    return torch.randint(0, 100, (size,), dtype=torch.float32, generator=torch.Generator().manual_seed(seed))


def digest(tensor):
    return hashlib.blake2b(tensor.numpy().tobytes(), digest_size=8).hexdigest()


def rank(number):
    torch.cuda.set_device(number)
    stream = torch.cuda.Stream()
    communicator = ctypes.c_void_p()
    must(nccl.ncclCommInitRank(ctypes.byref(communicator), 2, unique, number))
    said = []
    with torch.cuda.stream(stream):
        total = torch.zeros(6 * MIB, device="cuda")
        for turn in range(TURNS):
            first = number == turn % 2
            mine = made_up(6 * MIB, turn * 2 + number).to("cuda", non_blocking=True)
            extra = []
            # copies far more than a ring holds, while the other rank waits in the collective
            if not first:
                for part in range(4):
                    extra.append(made_up(48 * MIB, part).to("cuda"))
            must(nccl.ncclAllReduce(ctypes.c_void_p(mine.data_ptr()), ctypes.c_void_p(total.data_ptr()),
                                    ctypes.c_size_t(6 * MIB), 7, 0, communicator,
                                    ctypes.c_void_p(stream.cuda_stream)))
            if first:  # the rank that waited copies after the collective
                extra.append(made_up(96 * MIB, turn).to("cuda", non_blocking=True))
            said.append(digest(total.cpu()) + " " + " ".join(digest(one.cpu()) for one in extra))
        stream.synchronize()
    must(nccl.ncclCommDestroy(communicator))
    results[number] = said


def guarded(number):
    try:
        rank(number)
    except Exception as error:  # noqa: BLE001
        errors.append(f"rank {number}: {error}")


def main():
    must(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    ranks = [threading.Thread(target=guarded, args=(number,)) for number in range(2)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    for number in sorted(results):
        for turn, line in enumerate(results[number]):
            print(f"rank {number} turn {turn} {line}")
    print("errors", errors)


main()
