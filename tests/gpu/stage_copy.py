# SPDX-License-Identifier: Apache-2.0
"""Stage copy: copies and pinned memory on this GPU behave as they would without the library.

Compares the conformance transcript (except with_library.txt), the view of pinned memory after a
fork, and the ways of PyTorch, CuPy and JAX to copy."""

import fnmatch
import pathlib
import re

from common import DRY, PROGRAMS, Checks, find_any, guarded
from same import PYTHON, judge, many

check = Checks("copy")
HERE = pathlib.Path(__file__).parent
MIB, GIB = 1 << 20, 1 << 30
EARLY = {"GPUFEED_STAGE_MIN": 4096}  # stage nearly everything
TIGHT = {**EARLY, "GPUFEED_STAGE_RING": 4 * MIB, "GPUFEED_STAGE_THREADS": 4, "GPUFEED_PIN_CACHE": "2M"}


ALLOCATORS = {
    "register": "pinned_use_cuda_host_register:True,pinned_num_register_threads:4",
    "segments": "expandable_segments:True",
}


def listed():
    """Returns allowed(row, value): whether with_library.txt permits this value of this row."""
    lines = [line.split(" | ") for line in (HERE / "with_library.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    return lambda row, value: any(fnmatch.fnmatchcase(row, pattern) and re.fullmatch(said, value or "")
                                  for pattern, said, _ in lines)


def rows(text):
    return dict(line.partition(" = ")[::2] for line in text.splitlines())


def transcript(pair):
    """Checks that every row is the same with and without the library, except those that are listed with a reason."""
    bare, ours = pair
    allowed = listed()
    if not check(bare.code == ours.code == 0, "conformance: exit code", f"{bare.code}, {ours.code}"):
        print(ours.tail())
    one, other = rows(bare.out), rows(ours.out)
    differ = [row for row in one | other if one.get(row) != other.get(row)]
    for row in differ:
        print(f"# {'listed' if allowed(row, other.get(row)) else 'DIFFERS'} {row}: {one.get(row)} without, "
              f"{other.get(row)} with")
    bad = [row for row in differ if not allowed(row, other.get(row))]
    check(bool(one) and not bad, f"conformance: {len(one)} rows, {len(differ)} differ as listed",
          ", ".join(f"{row} ({one.get(row)} | {other.get(row)})" for row in bad[:6]))


def first_programs():
    """Runs a few light programs while the transcript runs, which mostly waits."""
    program = find_any("conformance")
    large = 64 * MIB if DRY else 8 * GIB
    jobs = {"pinned-fork": ([PYTHON, PROGRAMS / "pinned_fork.py", large], 120, {})}
    if program is not None:
        jobs["conformance"] = ([program], 150, {"CONFORM_MS": 300 if DRY else 150})
    done = many(jobs, 2)
    if program is None:
        check.skip("conformance", "the program is not built")
    else:
        transcript(done["conformance"])
    judge(check, "pinned-fork", done["pinned-fork"])


def frameworks():
    program = PROGRAMS / "copies.py"
    jobs = {f"torch-{parts[0]}": ([PYTHON, program, *parts], 120, {}) for parts in (
        ("moves", "overwrite"), ("pinned", "files", "threads"), ("streams", "graph"), ("spoiled",),
        ("loaders", "saved"))}
    if DRY:  # runs on the CPU, which only shows that the program works
        jobs = {"torch-files": ([PYTHON, program, "files", "saved"], 120, {})}
    else:
        jobs["torch-early"] = ([PYTHON, program, "moves", "overwrite", "pinned", "streams"], 150, TIGHT)
        for name, setting in ALLOCATORS.items():
            jobs[f"torch-{name}"] = ([PYTHON, program, "pinned", "threads", "streams", "graph"], 120,
                                     {"PYTORCH_ALLOC_CONF": setting, "PYTORCH_CUDA_ALLOC_CONF": setting})
        for name in ("cupy", "jax"):
            jobs[name] = ([PYTHON, PROGRAMS / f"{name}_copies.py"], 120, {})
    for name, pair in many(jobs, 2 if DRY else 5).items():
        judge(check, name, pair)
        check("WRONG" not in pair[1].out, f"{name}: every byte is right")


for part in (first_programs, frameworks):
    guarded(check, part)
check.end()
