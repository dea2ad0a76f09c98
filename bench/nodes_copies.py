# SPDX-License-Identifier: Apache-2.0
"""The parts of bench/nodes.py that need no PyTorch: copies, small copies and launches, and the places of threads and
buffers, by processes of bench/h2d.c and bench/gputime.c."""

import itertools
import time

import arms
import nodes_fleets as fleets
import nodes_places as places
from h2d import count_for, program

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = [16 * KIB, MIB] if arms.DRY else [16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, GIB]
MOST_OF_ALL = 256 * MIB  # size of a copy if all GPUs copy at once
BINDING_SECONDS = 120 if arms.DRY else 5
BOUND = ("near", "ours", "near ours")  # arms whose threads and memory must be on the GPU's node
WALK = " walk=1" if arms.DRY else ""  # walks through the least memory
BUFFER = (4 if arms.DRY else 64) * MIB  # of the places part
NEVER_BELOW = fleets.NEVER_BELOW


def made(reading, gpu, name, extra=()):
    """Returns the arguments of the process of an arm that uses one GPU: (command, environment)."""
    node = {"near": gpu.node, "far": reading.far_from(gpu.node)}.get(name.partition(" ")[0])
    start = [] if node is None else [fleets.PYTHON, fleets.START, "--places",
                                     fleets.place(reading.cpus[node], fleets.policy_node(reading, node)), "--"]
    env = arms.ours(**(fleets.OFF if name.endswith("BIND=off") else {})) if "ours" in name else {}
    return [*start, *extra], {**fleets.visible([gpu]), **env}


NATIVE, STAGED = ("unbound", "again", "near", "far"), ("ours", "ours, BIND=off", "near ours", "far ours")


def start(reading, gpus, names, command):
    """Returns {arm: its processes, one for each GPU}."""
    fleet = {}
    for name in names:
        lines = [made(reading, gpu, name, command) for gpu in gpus]
        fleet[name] = [arms.Arm(line, **env) for line, env in lines]
    for running in fleet.values():
        for arm in running:
            arm.begin()
    return fleet


def finish(*fleets_to_end):
    """Ends all processes, and prints those that failed."""
    for fleet in fleets_to_end:
        codes = arms.end_all({(name, index): arm for name, running in fleet.items() for index, arm in enumerate(running)})
        print(*(f"# {name} {index} ended with {code}\n" for (name, index), code in codes.items() if code), sep="", end="", flush=True)


def copy_turn(running, words):
    """The rate is that of all processes together, until the last one ends."""
    def ask():
        begun = time.perf_counter()
        answers = [[float(part) for part in line.split()] for line in fleets.ask_all(running, f"copy {words}")]
        took = answers[0][0] if len(running) == 1 else time.perf_counter() - begun
        size = sum(one[2] for one in answers)
        return {"GB/s": size / took / 1e9, "CPU s/GB": sum(one[1] for one in answers) / (size / 1e9)}
    return ask


def copy_cases(fleet, count):
    cases = []
    for way, memory, size in itertools.product(("h2d", "d2h"), ("pageable", "pinned"), SIZES):
        if count > 1 and size > MOST_OF_ALL:
            continue
        words = f"way={way} memory={memory} bytes={size} count={max(2, count_for(size, count))}{WALK}"
        turns = {name: copy_turn(running[:count], words) for name, running in fleet.items()}
        wanted = [("ours", "near", "GB/s", NEVER_BELOW, "of native, near"),
                  ("near", "far", "GB/s", None, "native"), ("near ours", "far ours", "GB/s", None, "under the library"),
                  ("ours", "ours, BIND=off", "GB/s", None, "by binding")]
        cases.append(arms.Case(f"{way} {memory} {arms.size_name(size)}, {count} GPU{'s' * (count > 1)}", turns, wanted,
                               controls=[("again", "unbound", "GB/s")], part="copies", way=way, memory=memory, bytes=size, processes=count))
    return cases


def measure_copies(part, reading, gpus, until):
    fleet = start(reading, gpus, NATIVE + STAGED, [program()])
    try:
        cases = copy_cases(fleet, 1) + (copy_cases(fleet, len(gpus)) if len(gpus) > 1 else [])
        arms.rounds(cases, until)
        return cases, [], []
    finally:
        finish(fleet)


def launch_turn(arm):
    def ask():
        rate, median, late = arm.figures(f"launch threads=1 streams=1 seconds={0.1 if arms.DRY else 0.15}")
        return {"launches/s": rate, "p50 us": median / 1e3, "p99 us": late / 1e3, "1/p50": 1e9 / max(median, 1), "1/p99": 1e9 / max(late, 1)}
    return ask


def small_turn(arm, way):
    def ask():
        words = f"way={way} bytes=4096 count={20 if arms.DRY else 1000}{WALK}"
        seconds, _, size = arm.figures(f"copy {words}")
        return {"copies/s": size / 4096 / seconds, "us": seconds / size * 4096 * 1e6}
    return ask


def measure_latency(part, reading, gpus, until):
    names = (*NATIVE, "ours", "ours, BIND=off")
    copying = start(reading, gpus[:1], names, [program()])
    launching = start(reading, gpus[:1], names, [arms.find("gputime", "bench")])
    about = {"part": part, "processes": 1}
    try:
        cases = []
        for way in ("h2d", "d2h"):
            cases.append(arms.Case(f"{way} of 4 KiB", {name: small_turn(arm, way) for name, (arm,) in copying.items()},
                                   compared("copies/s"), controls=[("again", "unbound", "copies/s")], **about))
        cases.append(arms.Case("launches", {name: launch_turn(arm) for name, (arm,) in launching.items()},
                               compared("1/p50") + compared("1/p99"), controls=[("again", "unbound", "1/p50")], **about))
        arms.rounds(cases, until)
        return cases, [], []
    finally:
        finish(copying, launching)


def compared(figure):
    return [("ours", "near", figure, NEVER_BELOW, f"of native, near, by {figure}"), ("near", "far", figure, None, f"by {figure}"),
            ("ours", "ours, BIND=off", figure, None, f"by {figure}")]


def wait_for_binding(gpu, name, arm, cpus):
    """The library's engine is loaded after cuInit, on a busy machine seconds later."""
    until = time.monotonic() + BINDING_SECONDS
    while name in BOUND and time.monotonic() < until:
        found = places.count_threads(name, gpu, "", [arm.process.pid], cpus)
        if found.threads == found.threads_near:
            return
        time.sleep(0.05)


def places_of(reading, gpu, name, arm):
    """Returns the places of one process: its buffers, and its threads while four of them copy, with the library's helpers."""
    pid, cpus = arm.process.pid, reading.cpus[gpu.node]
    wait_for_binding(gpu, name, arm, cpus)
    found = []
    for memory in ("pageable", "pinned"):
        ranges = places.ranges_in(arm.ask(f"where memory={memory} bytes=4096 walk={BUFFER}"))
        found.append(places.count_pages(name, gpu, f"{memory} buffer", pid, ranges.get(memory, [])))
    arm.send(f"copy way=h2d bytes={BUFFER} threads=4 count={20 if arms.DRY else 100}{WALK}")
    time.sleep(0.5 if arms.DRY else 0.05)
    found.append(places.count_threads(name, gpu, "threads during copies", [pid], cpus))
    arm.answer()
    return [*found, places.count_private(name, gpu, pid)]


LEAST = 0.99


def measure_places(part, reading, gpus, until):
    """Places have no ratio, so there is no case. A wrong place of a bound arm is an error. Arms run one after another."""
    found = []
    for name in (*NATIVE[:1], *NATIVE[2:], *STAGED):
        fleet = start(reading, gpus, (name,), [program()])
        try:
            for gpu, arm in zip(gpus, fleet[name]):
                found += places_of(reading, gpu, name, arm)
        finally:
            finish(fleet)
    return [], found, [] if reading.pretended else wrong(found)


def wrong(found):
    """Returns a line for each place of a bound arm that is not on the GPU's node."""
    lines = []
    for one in found:
        pages = one.near + one.elsewhere
        if one.arm in BOUND and (one.threads_near < one.threads or (one.what.endswith("buffer") and one.near < LEAST * pages)):
            lines.append("misplaced: " + places.row(one))
    return lines
