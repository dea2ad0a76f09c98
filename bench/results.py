#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes measured figures into RESULTS.md, and draws the charts.

bench/results.py [RAW.jsonl...] [--build COMMIT] [--note TEXT] [--measured bench/measured.jsonl]
[--results bench/RESULTS.md] [--charts bench]

RAW: the output of bench/h2d.py, pinned.py, train.py, gputime.py and loaders.py with --json, or
measured.jsonl in a stage's $OUT. Summaries of its cases replace cases of the same name in
bench/measured.jsonl; later files take precedence. Then the charts and the part of RESULTS.md between
the two marks are generated from bench/measured.jsonl. --build: the commit that RAW was measured with.
--note: a new paragraph above the tables. Figures of the simulated driver are refused."""

import argparse
import collections
import json
import pathlib
import re
import sys

import arms
import chart
import measured

HERE = pathlib.Path(__file__).resolve().parent
BEGIN = "<!-- transfers: written by bench/results.py -->"
END = "<!-- end of transfers -->"


def load(paths, build):
    """Returns the summaries of all cases with at least one round, in the order of the files."""
    found = []
    for path in paths:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            if "cases" not in run:
                sys.exit(f"{path}: not what a bench wrote with --json")
            if run["dry"]:
                sys.exit(f"{path}: figures of the simulated driver")
            if run.get("wrong"):
                print(f"note: {path}: {run['bench']}: {run['wrong']}", file=sys.stderr)
            found += [measured.summary(run, case, build) for case in run["cases"] if case["samples"]]
    return found


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(row) + " |" for row in rows)])


def figure(case, arm, name, digits=3):
    value = case["medians"].get(arm, {}).get(name)
    return "" if value is None else f"{value:.{digits}g}"


def claim_of(case, under, shown=None):
    """Returns the first claim of `ours` over `under`, or that of the figure `shown`."""
    return next((claim for claim in case["claims"] if claim["under"] == under and claim["over"] == "ours" and
                 shown in (None, claim["figure"])), None)


def interval(claim):
    return f"{claim['ratio']:.3f} ({claim['low']:.3f} to {claim['high']:.3f})" if claim else ""


def verdict(good, case):
    """Lists results with too few rounds, or too few sets of processes, with their number."""
    few = case.get("lacks")
    return ("met" + (f" in {few}" if few else "")) if good else "**not met**"


def wanted(claim, case):
    if not claim:
        return ""
    return f"{least_of(claim)}, {verdict(claim['good'], case)}"


def wanted_if(claim, case):
    """Returns the requirement of a claim as text, or "" if it has none."""
    return wanted(claim, case) if claim and claim["least"] is not None else ""


def least_of(claim):
    return "not slower" if isinstance(claim["least"], str) else f"{claim['least']:.3g}"


def chance(case):
    """Returns the difference between two equal arms as text."""
    return ", ".join(interval(control) for control in case.get("controls", ()))


def sizes(cases):
    parts = []
    for way, title in (("h2d", "Host to device"), ("d2h", "Device to host")):
        rows = [[arms.size_name(c["bytes"]) + (" hot" if c.get("hot") else ""), figure(c, "pinned", "GB/s"),
                 figure(c, "driver", "GB/s"), figure(c, "ours", "GB/s"),
                 interval(claim_of(c, "pinned")), wanted(claim_of(c, "pinned"), c),
                 interval(claim_of(c, "driver")), wanted(claim_of(c, "driver"), c), chance(c),
                 figure(c, "driver", "CPU s/GB"), figure(c, "ours", "CPU s/GB")]
                for c in sorted(cases, key=lambda c: c["bytes"]) if c["part"] == "sizes" and c["way"] == way]
        if rows:
            parts.append(f"{title}, synchronous, one caller, GB/s:\n\n" + table(
                ["size", "pinned", "driver", "ours", "ours / pinned", "accept", "ours / driver", "accept", "driver / driver",
                 "driver CPU s/GB", "ours CPU s/GB"], rows))
    return parts


def others(cases, titles):
    parts = []
    for part, title in titles.items():
        rows = [[c["case"].partition(": ")[2], figure(c, "driver", "GB/s"), figure(c, "ours", "GB/s"),
                 interval(claim_of(c, "driver")), wanted(claim_of(c, "driver"), c), chance(c),
                 figure(c, "driver", "CPU s/GB"), figure(c, "ours", "CPU s/GB")]
                for c in cases if c["part"] == part]
        if rows:
            parts.append(f"{title}, GB/s:\n\n" + table(
                ["what", "driver", "ours", "ours / driver", "accept", "driver / driver", "driver CPU s/GB",
                 "ours CPU s/GB"], rows))
    return parts


def first(cases):
    rows = [[c["case"].partition(": ")[2], figure(c, "driver", "ms"), figure(c, "ours", "ms"),
             interval(claim_of(c, "driver")), wanted(claim_of(c, "driver"), c), chance(c)]
            for c in cases if c["part"] == "first"]
    return ["A process's first copy, ms (ratio of speeds):\n\n" + table(
        ["what", "driver", "ours", "ours / driver", "accept", "driver / driver"], rows)] if rows else []


def left(cases):
    cases = [c for c in cases if c["part"] == "left"]
    rows = [[c["case"].partition(": ")[2], figure(c, "driver", "GB/s"), chance(c),
             *(interval(claim) for claim in c["claims"])] for c in cases]
    return ["Copies that are the driver's in all processes, GB/s and ratios to it:\n\n" + table(
        ["what", "driver", "driver / driver", *(claim["text"].rpartition(": ")[2] for claim in cases[0]["claims"])],
        rows)] if rows else []


def h2d(cases):
    return left(cases) + sizes(cases) + first(cases) + others(cases, {
        "async": "Asynchronous, one caller", "threads": "Several callers",
        "few": "On two CPUs", "load": "While the GPU computes", "ranks": "Eight processes at once"})


def pinned(cases):
    rows = [[c["case"], figure(c, "driver", "alloc us"), figure(c, "ours", "alloc us"),
             figure(c, "driver", "free us"), figure(c, "ours", "free us"), interval(claim_of(c, "driver")),
             wanted(claim_of(c, "driver"), c)] for c in cases if c["part"] != "fork"]
    forks = [[c["case"], figure(c, "driver", "us"), figure(c, "ours", "us"), figure(c, "driver", "whole us"),
              figure(c, "ours", "whole us"), interval(claim_of(c, "driver")), wanted(claim_of(c, "driver"), c)]
             for c in cases if c["part"] == "fork"]
    parts = []
    if rows:
        parts.append("cuMemHostAlloc and cuMemFreeHost, us each (ratio of speeds; warm: of the pair):\n\n" + table(
            ["what", "driver: get", "ours: get", "driver: free", "ours: free", "ours / driver", "accept"], rows))
    if forks:
        parts.append("fork() with pinned memory, us (ratio of speeds):\n\n" + table(
            ["what", "driver", "ours", "driver: until the child's exit", "ours", "ours / driver", "accept"], forks))
    return parts


def train(cases):
    rows = []
    for case in cases:
        unit = f"{case['unit']}/s"
        for arm, medians in case["medians"].items():
            claims = [f"{interval(c)} of {c['under']}, accept {wanted(c, case)}" for c in case["claims"] if c["over"] == arm]
            claims += [f"{interval(c)} of {c['under']}, which is the same" for c in case.get("controls", ())
                       if c["over"] == arm]
            rows.append([case["case"], arm, f"{medians[unit]:.4g} {unit}", f"{medians['CPU s/GB']:.3g}",
                         figure(case, arm, "CPUs"), "; ".join(claims), str(case["rounds"])])
    return ["Whole programs (plain: `.to(device)`; async: `non_blocking=True`; hand: `pin_memory=True` too):\n\n" + table(
        ["program", "arm", "speed", "CPU s/GB", "CPUs", "ratio", "rounds"], rows)] if rows else []


def gputime(cases):
    """Makes the table of launches: a row for each arm, with the ratio of launches/s and the inverse ratios of durations."""
    rows = []
    for case in cases:
        for arm, medians in case["medians"].items():
            ratios = [f"{interval(c)} of {c['under']} ({c['figure']}{f', accept {wanted(c, case)}' if c.get('least') else ''})"
                      for c in (*case["claims"], *case.get("controls", ())) if c["over"] == arm]
            rows.append([case["case"], arm, f"{medians['launches/s']:.4g}", f"{medians['p50 us']:.3g}",
                         f"{medians['p99 us']:.3g}", "; ".join(ratios), str(case["rounds"])])
    return ["Launches of an empty kernel (sampled: GPUFEED_GPU_TIME=200, off: 0, driver: without the library):\n\n" + table(
        ["what", "arm", "launches/s", "median, us", "p99, us", "ratio (1/p50, 1/p99: inverse durations)", "rounds"],
        rows)] if rows else []


def loaders(cases):
    """Makes the tables of programs that load or save a model, of copies by several threads, of pinned memory, and of
    neighbours."""
    parts = []
    rows = [[case["case"], case["versions"], *(figure(case, arm, "GB/s") for arm in ("plain", "ours", "reads")),
             interval(claim_of(case, "plain")), wanted_if(claim_of(case, "plain"), case),
             *(figure(case, arm, "second GB/s") for arm in ("plain", "ours")),
             *(figure(case, arm, name) for name in ("CPU s/GB", "RSS GiB") for arm in ("plain", "ours")), str(case["rounds"])]
            for case in cases if case["part"] == "programs"]
    if rows:
        parts.append("Programs, GB/s of a process's first load (`fresh`: the file is not in the page cache), of its second load, "
                     "CPU seconds for each GB, largest resident size in GiB (with several ranks, that of one):\n\n" + table(
                         ["program", "versions", "plain", "ours", "reads by 8 threads", "ours / plain", "accept", "second: plain",
                          "ours", "plain CPU s/GB", "ours CPU s/GB", "plain RSS", "ours RSS", "rounds"], rows))
    rows = [[case["case"].partition(": ")[2], case["case"].partition(", ")[2].partition(":")[0],
             *(figure(case, arm, "GB/s") for arm in ("pinned", "driver", "ours")),
             *(text for under in ("driver", "pinned") for text in (interval(claim_of(case, under)),
                                                                   wanted_if(claim_of(case, under), case))), str(case["rounds"])]
            for case in cases if case["part"] == "threads"]
    if rows:
        parts.append("Eight threads of PyTorch, each copying tensors by `copy_()`, GB/s:\n\n" + table(
            ["size", "streams", "pinned", "driver", "ours", "ours / driver", "accept", "ours / pinned", "accept", "rounds"], rows))
    rows = [[case["case"], *(figure(case, arm, name) for name in ("alloc us", "free us", "stall ms") for arm in ("plain", "ours")),
             interval(claim_of(case, "plain")), wanted_if(claim_of(case, "plain"), case), str(case["rounds"])]
            for case in cases if case["part"] in ("pool", "pairs")]
    if rows:
        parts.append("cudaHostAlloc and cudaFreeHost (ratio of allocations; of pairs for `pairs`), and the longest cudaMemGetInfo and "
                     "kernel of a process beside it:\n\n" + table(
                         ["what", "alloc us: plain", "ours", "free us: plain", "ours", "stall ms: plain", "ours", "ours / plain",
                          "accept", "rounds"], rows))
    return parts + neighbours(cases)


def neighbours(cases):
    rows = [[case["case"].partition(": ")[2], str(case["workers"]), figure(case, "plain", "alone items/s"),
             *(text for name in ("items/s", "second items/s") for text in (
                 *(figure(case, arm, name) for arm in ("plain", "ours")), interval(claim_of(case, "plain", name)))),
             *(figure(case, arm, name) for name in ("GB/s", "lost s/GB") for arm in ("plain", "ours")), str(case["rounds"])]
            for case in cases if case["part"] == "neighbours"]
    return ["A neighbour without a GPU, whose DataLoader workers prepare images: images/s alone, during a process's first load and "
            "during later ones. `lost` is the time in which the neighbour alone would have prepared the images that a load of 1 GB "
            "costs it:\n\n" + table(
                ["program", "workers", "alone", "first: plain", "ours", "ours / plain", "later: plain", "ours", "ours / plain",
                 "plain GB/s", "ours GB/s", "plain lost s/GB", "ours lost s/GB", "rounds"], rows)] if rows else []


BENCHES = {"h2d": ("Copies", "`bench/h2d.py`", h2d), "pinned": ("Pinned memory", "`bench/pinned.py`", pinned),
           "train": ("Programs", "`bench/train.py`", train),
           "gputime": ("The cost of launches", "`bench/gputime.py`", gputime),
           "loaders": ("Loading and saving models", "`bench/loaders.py`", loaders)}


def accepted(found):
    """Makes a row for each kind of claim: how many hold, and the claim that fails by most or holds by least."""
    kinds = {}
    for bench, cases in found.items():
        for case in cases:
            for claim in case["claims"]:
                if claim["least"] is None:
                    continue
                key = bench, case["part"], f"{claim['over']} / {claim['under']}", least_of(claim)
                kinds.setdefault(key, []).append((claim, case))
    rows = []
    for (bench, part, ratio_of, least), claims in kinds.items():
        held = sum(claim["good"] for claim, _ in claims)
        worst, lowest = min(claims, key=lambda one: (one[0]["good"], one[0]["low"]))
        fewest = min((case for _, case in claims), key=lambda case: case["rounds"])
        rows.append([f"{bench}: {part}", ratio_of, least, f"{held} of {len(claims)}",
                     verdict(held == len(claims), fewest), f"{lowest['case']}: {interval(worst)}"])
    return table(["what", "ratio", "accept", "hold", "", "the lowest"], rows)


def machines(cases):
    """Returns the machines, and the first and last day of the measurements, as text."""
    days = {}
    for case in cases:
        days.setdefault(case["machine"], set()).add(case["date"])
    return "; ".join(f"{machine}, {min(dates)}" + (f" to {max(dates)}" if len(dates) > 1 else "")
                     for machine, dates in days.items())


def builds(cases):
    """Returns the builds of each part as text. If a build measured only some of a part's cases, their number
    follows."""
    parts, known = collections.Counter(case["part"] for case in cases), {}
    for case in cases:
        if case.get("build"):
            known.setdefault((case["date"], case["build"]), collections.Counter())[case["part"]] += 1
    return [f"Of build {build}, {date}: " + ", ".join(
        part if count == parts[part] else f"{part} ({count} of {parts[part]})" for part, count in some.items()) + "."
            for (date, build), some in sorted(known.items())]


def section(found, note):
    lines = [BEGIN, "## Copies and pinned memory", "",
             "Arms take turns in shuffled order within each round. A ratio is the median over the rounds, with "
             "its bootstrap 95 % interval; the lower end of the interval is compared with the accepted bound. "
             "The ratio of two equal arms shows the size of random differences." + (f"\n\n{note}" if note else "")]
    lines += ["", accepted(found)]
    for bench, (title, command, render) in BENCHES.items():
        if bench in found:
            lines += ["", f"### {title}", "", " ".join([f"{command}: {machines(found[bench])}.", *builds(found[bench])])]
            for part in render(found[bench]):
                lines += ["", part]
            if bench in chart.CHARTS:
                lines += ["", f"![{title}]({chart.CHARTS[bench][0]})"]
    return "\n".join([*lines, "", END]) + "\n"


def put(path, text):
    """Replaces the text between the two marks of a file, or appends it."""
    old = path.read_text(encoding="utf-8") if path.exists() else "# Results\n"
    if BEGIN in old:
        new = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END) + "\n?", lambda _: text, old, flags=re.DOTALL)
    else:
        new = old.rstrip("\n") + "\n\n" + text
    path.write_text(new, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", nargs="*")
    parser.add_argument("--build", default="", metavar="COMMIT")
    parser.add_argument("--note", metavar="TEXT")
    parser.add_argument("--measured", type=pathlib.Path, default=HERE / "measured.jsonl")
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "RESULTS.md")
    parser.add_argument("--charts", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    note, cases = measured.read(args.measured)
    cases = measured.merged(cases, load(args.raw, args.build))
    note = note if args.note is None else args.note
    found = {}
    for case in cases:
        found.setdefault(case["bench"], []).append(case)
    text = section(found, note)
    drawn = {name: draw(found[bench]) for bench, (name, draw) in chart.CHARTS.items() if bench in found}
    measured.write(args.measured, note, cases)
    put(args.results, text)
    for name, svg in drawn.items():
        (args.charts / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
