# SPDX-License-Identifier: Apache-2.0
"""One process of bench/loaders.py: a program that loads or saves a model with an ordinary library.

    loaders_arm.py PROGRAM [PATH]

    (imports)         -> ready
    go [WORDS]        -> a line of JSON: seconds, their begin and end on the monotonic clock, bytes, CPU seconds,
                         largest resident size (MiB), and a checksum if bytes arrive; the first `go` also starts
                         CUDA, untimed
    report            -> a line of JSON: the library's report, or null without the library

Of gpufeed, it uses only gpufeed_report(). GF_DRY=1: on the CPU, with pinned memory of the simulated
driver."""

import ctypes
import faulthandler
import json
import os
import sys

import loaders_batches as batches
import loaders_copies as copies
import loaders_load as load
import loaders_make as make
import loaders_ranks as ranks
import loaders_save as save
from loaders_timed import start_cuda

PROGRAMS = {
    "load_file": load.Safetensors, "load_file-pread": load.SafetensorsPread, "torch.load": load.TorchLoad,
    "torch.load-mmap": load.TorchLoadMapped, "fastsafetensors": load.FastSafetensors, "runai": load.RunaiStreamer,
    "from_pretrained": load.Pretrained, "reads": load.Reads, "cpu": save.Cpu, "torch.save": save.TorchSave,
    "dcp.save": save.CheckpointSave, "dcp.load": save.CheckpointLoad, "pool": copies.Pool,
    "neighbour": copies.Neighbour, "threads": copies.Threads, "make": make.Make,
    "from_pretrained-split": load.PretrainedSplit, "dcp.ranks": ranks.Checkpoint, "batches": batches.Batches,
}


def report():
    try:
        ask = ctypes.CDLL(None).gpufeed_report
    except AttributeError:
        return None
    ask.restype, ask.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(1 << 20)
    return json.loads(text.value) if ask(text, len(text)) else None


def main():
    if os.environ.get("GF_FAULTS") == "1":  # not for measurements, because the library copies differently if the program has a signal handler
        faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # messages of libraries must not mix with the answers
    program, begun = PROGRAMS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None), False
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "go":
            if not begun:
                if sys.argv[1] not in ("reads", "batches"):
                    start_cuda()
                program.begin()
                begun = True
            print(json.dumps(program.go(*words[1:])), file=answers, flush=True)
        elif words[0] == "report":
            print(json.dumps(report()), file=answers, flush=True)
        else:
            break
    if begun and hasattr(program, "end"):
        program.end()


if __name__ == "__main__":
    main()
