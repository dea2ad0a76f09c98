# SPDX-License-Identifier: Apache-2.0
"""Stage tools: tools that watch or check a CUDA program find the same with and without the library.

The tools are compute-sanitizer on deliberate mistakes, CUPTI callbacks that copy, torch.profiler and Nsight
Compute."""

import glob
import importlib.util
import os
import re
import shutil

from common import DRY, OUT, PROGRAMS, Checks, find_any, guarded
from same import PYTHON, judge, many

check = Checks("tools")
MIB = 1 << 20


def without_numbers(text):
    """Removes addresses, process IDs and the tools' lines about themselves, which differ between runs."""
    text = re.sub(r"^gpufeed: .*\n", "", text, flags=re.M)  # the tool merges standard output and standard error
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    # The nearest allocation depends on chance, unless the address is directly at a block.
    text = re.sub(r"is [\d,]{2,} bytes (before|after) the nearest allocation.*", "is far from every allocation", text)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(re.sub(r"\b(PID|pid|process) \d+", "PID", line) for line in lines
                     if not re.search(r"==PROF==|Connected to process|Disconnected from", line))


def first_of(*patterns):
    """Returns the newest file that matches one of these patterns, or None."""
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern), reverse=True)), None)


def packages():
    """Returns the folder of NVIDIA's Python packages, which is near PyTorch's."""
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else "/nonexistent"


def sanitizer():
    program = find_any("planted")
    tool = shutil.which("compute-sanitizer") or first_of("/usr/local/cuda*/bin/compute-sanitizer",
                                                         "/usr/local/cuda*/compute-sanitizer/compute-sanitizer",
                                                         "/opt/nvidia/*/compute-sanitizer")
    if program is None or not (DRY or tool):
        check.skip("compute-sanitizer", "it is not here" if program else "no program planted")
        return
    jobs = {}
    for mode in ("clean", "oob", "uaf", "far", "copy", "free"):
        for size in (4096, MIB, 32 * MIB):
            # Frames name the library if it is on the stack, so they are ignored.
            under = [] if DRY else [tool, "--show-backtrace", "no", "--print-limit", "20"]
            jobs[f"sanitizer-{mode}-{size}"] = ([*under, program, mode, size], 90, {})
    for mode in ("clean", "copy") if not DRY else ():
        jobs[f"sanitizer-all-{mode}"] = ([tool, "--show-backtrace", "no", "--report-api-errors", "all", program, mode,
                                          32 * MIB], 90, {})
        jobs[f"sanitizer-leak-{mode}"] = ([tool, "--show-backtrace", "no", "--leak-check", "full", program, mode,
                                           32 * MIB], 90, {})
    found = there = 0
    for name, pair in many(jobs, 6).items():
        judge(check, name, pair, without_numbers, wanted=pair[0].code if pair[0].code != "timeout" else 0)
        found += "Invalid __global__ write" in pair[0].out
        there += "gpufeed: " in pair[1].err + pair[1].out
    print(f"# the library was in {there} of {len(jobs)} of these", flush=True)
    if not DRY:
        check(there > 0, "compute-sanitizer leaves the library in", f"in {there} of {len(jobs)}")
        check(found > 0, "compute-sanitizer finds planted mistakes here", f"{found} reports of a bad write")


def cupti():
    tool = find_any("libcupti_copies.so")
    # the CUPTI that PyTorch loads into the process
    library = first_of(packages() + "/nvidia/*/lib/libcupti.so.1[0-9]",
                       "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[0-9]",
                       "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcupti.so.1[0-9]")
    if DRY or tool is None or library is None:
        check.skip("CUPTI callbacks that copy", f"simulated driver, or no CUPTI ({library}) or tool ({tool})")
        return
    env = {"CUDA_INJECTION64_PATH": tool, "GF_CUPTI": library}
    jobs = {"cupti-torch": ([PYTHON, PROGRAMS / "copies.py", "moves", "overwrite", "threads"], 150, env),
            "cupti-early": ([PYTHON, PROGRAMS / "copies.py", "moves", "streams"], 150,
                            {**env, "GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_RING": 2 * MIB})}
    for name, pair in many(jobs, 2).items():
        judge(check, name, pair)
        made = [re.findall(r"cupti_copies: saw (\d+) copies, made (\d+)", done.err) for done in pair]
        check(all(one and int(one[-1][1]) > 0 for one in made), f"{name}: the callbacks copied", str(made))


def profilers():
    if DRY:
        check.skip("profilers", "no GPU")
        return
    jobs = {"profiled": ([PYTHON, PROGRAMS / "profiled.py"], 120, {})}
    ncu = shutil.which("ncu") or first_of("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu")
    if ncu:
        jobs["ncu"] = ([ncu, "--clock-control", "none", "--launch-count", "3", "--metrics",
                        "sm__cycles_elapsed.max", "--log-file", OUT / "ncu-%p.txt", PYTHON, PROGRAMS / "copies.py",
                        "streams"], 150, {})
    for name, pair in many(jobs, 2).items():
        judge(check, name, pair, without_numbers)


for part in (sanitizer, cupti, profilers):
    guarded(check, part)
check.end()
