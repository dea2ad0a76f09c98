# SPDX-License-Identifier: Apache-2.0
"""Reads and writes measured.jsonl, from which RESULTS.md and the charts are generated. It has the note,
and then a line with the shown figures of each measured case. Raw files, which have every sample, are
not kept; so a new measurement of some cases does not change the others. Lines are sorted by bench and
case; `place` is the position of a case in the tables. Empty, 0 and false members are omitted. If a
bench drops a case, delete its line by hand."""

import json

import chart
import ratio

SHOWN = ("GB/s", "second GB/s", "CPU s/GB", "RSS GiB", "stall ms", "ms", "alloc us", "free us", "us", "whole us", "CPUs",
         "p50 us", "p99 us", "items/s", "second items/s", "alone items/s", "lost s/GB")  # figures, besides that of `unit`
ABOUT = ("part", "way", "bytes", "mode", "threads", "load", "hot", "processes", "unit", "versions", "workers")
CLAIM = ("over", "under", "figure", "least", "good", "ratio", "low", "high", "text")


def whole(value):
    return int(value) if value == int(value) else value


def figures_of(medians, unit):
    """Sorts the arms by their order in the charts."""
    known = list(chart.COLOURS)
    order = sorted(medians, key=lambda arm: (known.index(arm) if arm in known else len(known), arm))
    shown = (*([f"{unit}/s"] if unit else []), *SHOWN)
    return {arm: {name: whole(float(f"{medians[arm][name]:.5g}")) for name in shown if name in medians[arm]}
            for arm in order}


def claims_of(claims):
    return [{key: round(claim[key], 3) if isinstance(claim[key], float) else claim[key] for key in CLAIM if key in claim}
            for claim in claims]


def summary(run, case, build):
    """Returns a case of a raw file without its samples. For older records without `lacks`, derives it from their
    rounds."""
    m, count = run["machine"], len(case["samples"])
    known = {"bench": run["bench"], **case, "rounds": count,
             "lacks": case.get("lacks", f"{count} rounds" if count < ratio.MIN_ROUNDS else ""),
             "machine": f"{m['cpu']}, {m['cpus']} CPUs, Linux {m['kernel']}, {m['libc']}", "date": m["date"], "build": build,
             "medians": figures_of(case["medians"], case.get("unit")), "claims": claims_of(case["claims"]),
             "controls": claims_of(case.get("controls", ()))}
    keys = ("bench", "case", *ABOUT, "rounds", "lacks", "machine", "date", "build", "medians", "claims", "controls")
    return {key: known[key] for key in keys if known.get(key) or key == "claims"}


def read(path):
    """Returns (note, [case]), with the cases in the order of the tables."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    note = next((line["note"] for line in lines if "note" in line), "")
    return note, sorted((line for line in lines if "case" in line), key=lambda case: case["place"])


def write(path, note, cases):
    ordered = sorted(cases, key=lambda case: (case["bench"], case["case"]))
    path.write_text("".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
                            for line in ({"note": note}, *ordered)), encoding="utf-8")


def merged(cases, new):
    """Replaces cases by new cases of the same name, and adds other new cases at the end."""
    found = {(case["bench"], case["case"]): case for case in cases}
    for case in new:
        name = case["bench"], case["case"]
        last = max((one["place"] for one in found.values()), default=-1)
        found[name] = {**case, "place": found[name]["place"] if name in found else last + 1}
    return sorted(found.values(), key=lambda case: case["place"])
