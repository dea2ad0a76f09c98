# SPDX-License-Identifier: Apache-2.0
"""Shared by the stages that measure. Makes bench/ importable, and turns the claims of benches into checks."""

import os
import sys

from common import PRELOAD, DRY, OUT, SOURCE, time_left

if PRELOAD and PRELOAD.parent.name == "lib":
    os.environ.setdefault("GF_BUNDLE", str(PRELOAD.parents[2]))  # programs and other allocators are next to the bundle
sys.path.insert(0, str(SOURCE / "bench"))
import arms  # noqa: E402


def verdicts(check, cases):
    """Makes a check for each part, and one for each claim that fails. With the simulated driver, figures are not
    judged. With too few rounds, a claim can fail but not pass."""
    held = {}
    for case in cases:
        for (over, under, _, least, text), good, value, low, high in case.judged():
            if least is None:
                continue
            missed = high < (1 if least == "same" else least)
            if not isinstance(least, str):
                least = f"at least {least:.3g}"
            said = f"{over}/{under} {value:.3f} ({low:.3f} to {high:.3f}), wanted {least} {text}"
            if case.lacks() and not missed and not DRY:
                check.skip(case.name, f"too few, {case.lacks()}: {said}")
            elif good:
                held.setdefault((case.about["part"], under), []).append(low)
            elif not DRY:
                check(False, case.name, said)
    for (part, under), lows in held.items():
        if not DRY:
            check(True, f"{part}: {len(lows)} claims against {under} hold", f"lowest {min(lows):.3f}")
    if DRY:
        check.skip("claims", "figures of the simulated driver decide nothing")


def measured(check, bench, measure, most, reserve=25, **about):
    """Calls measure(seconds=...) -> (cases, errors). Stores the result in OUT/measured.jsonl, and judges it."""
    cases, bad = measure(seconds=max(10, min(most, time_left() - reserve)))
    arms.keep(str(OUT / "measured.jsonl"), bench, cases, wrong=bad, **about)
    check(not bad, "bytes and exit codes", "; ".join(map(str, bad)))
    check(bool(cases) and all(case.rounds for case in cases), "every case has rounds",
          str(sorted({len(case.rounds) for case in cases})))
    if few := [f"{case.name}: {case.lacks()}" for case in cases if case.lacks()]:
        check.skip("enough rounds each", "; ".join(few))
    else:
        check(True, f"at least {arms.ROUNDS} rounds each")
    for case in cases:
        for (over, under, _), value, low, high in case.noise():
            if abs(value - 1) > 0.03:
                print(f"# {case.name}: {over}/{under}, which are the same, {value:.3f} ({low:.3f} to {high:.3f})")
    verdicts(check, cases)
    return cases
