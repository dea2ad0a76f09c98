# SPDX-License-Identifier: Apache-2.0
"""Runs processes side by side, in turns, controlled by pipes. An arm is one way to run the same
program (alone, under a library, pinned by hand). While one arm works, the others sleep.

A case is one request that each arm gets in each round. Ratios are computed within rounds. rounds()
shuffles cases and arms, and gives undecided cases more rounds while time is left."""

import argparse
import atexit
import contextlib
import json
import os
import pathlib
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time

import ratio

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
DRY = os.environ.get("GF_DRY") == "1"
PATIENCE = 120  # seconds for one answer
ROUNDS = 3 if DRY else ratio.MIN_ROUNDS
RENEWED = 1 if DRY else 2  # rounds in a set; after each set, processes are renewed
SETS = 3 if DRY else 8  # least number of sets; the bootstrap resamples whole sets


def find(name, *folders):
    """Returns the newer of the bundle's and the build folder's file, so that no old bundle is measured.
    None if neither has it. GF_BUNDLE takes precedence."""
    if "GF_BUNDLE" in os.environ:
        found = sorted(path for path in pathlib.Path(os.environ["GF_BUNDLE"]).rglob(name) if path.is_file())
        if found:
            return found[0]
    places = [BUILD / folder for folder in ("bundle", *(folders or ("src", "bench", "tests")))]
    found = [path for place in places for path in sorted(place.rglob(name)) if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def environment(**extra):
    """Returns this environment without preloads and this project's variables, changed by `extra`; a
    value of None removes a name."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED") and k != "LD_PRELOAD"}
    if DRY:
        env["LD_LIBRARY_PATH"] = str(find("libcuda.so.1", "tests").parent)
    env.update({k: str(v) for k, v in extra.items() if v is not None})
    return env


def ours(**extra):
    preload = find("libgpufeed.so")
    if preload is None:
        sys.exit("no libgpufeed.so: build first")
    return {"LD_PRELOAD": str(preload), **extra}


class Arm:
    """A process that answers each line on its standard input by one line on its standard output. `opening` is a line
    that is sent first; its answer is not read."""

    def __init__(self, command, cpus=None, ready="ready", opening=None, **env):
        self.made = (command, cpus, ready, opening), env
        bound = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(c) for c in command], env=environment(**env), cwd=SOURCE,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                        stderr=self.errors, preexec_fn=bound, start_new_session=True)
        atexit.register(self.kill)
        self.command, self.waits_for, self.opening, self.unread = command, ready, opening, b""
        self.patience = PATIENCE

    def renew(self):
        """Returns an arm with the same arguments, whose process is not started yet."""
        if code := self.end():
            raise RuntimeError(f"{self.command} ended with {code}: {self.stderr()[-2000:]}")
        self.errors.close()
        atexit.unregister(self.kill)
        self.__init__(*self.made[0], **self.made[1])

    def begin(self):
        """Waits until the process runs; separate from __init__ so that several can start at the
        same time."""
        if self.waits_for:
            self._expect(self.waits_for)
            self.waits_for = None
        if self.opening:
            opening, self.opening = self.opening, None
            self.ask(opening)
        return self

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def _line(self):
        while b"\n" not in self.unread:
            if not select.select([self.process.stdout], [], [], self.patience)[0]:
                raise RuntimeError(f"{self.command} has not answered in {self.patience} s: "
                                   f"{self.stderr()[-2000:]}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise RuntimeError(f"{self.command} ended with {self.process.wait()}: "
                                   f"{self.stderr()[-2000:]}")
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode().strip()

    def _expect(self, wanted):
        line = self._line()
        if line != wanted:
            raise RuntimeError(f"{self.command} said {line!r} instead of {wanted!r}")

    def ask(self, line):
        self.send(line)
        return self.answer()

    def send(self, line):
        self.begin()
        self.process.stdin.write(line.encode() + b"\n")

    def answer(self):
        return self._line()

    def figures(self, line):
        return [float(part) for part in self.ask(line).split()]

    def leave(self):
        """Requests the process's end; separate from end() so that several can end at the same time."""
        if not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.write(b"quit\n")
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def end(self):
        """Returns the exit code. A process that does not end within 30 s is killed."""
        self.leave()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
        return self.process.wait()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()


def end_all(running):
    """Ends all arms. Returns {arm: exit code}."""
    for arm in running.values():
        arm.leave()
    return {name: arm.end() for name, arm in running.items()}


class Case:
    """A case: its name, and its arms {name: function that returns a dict of figures for one turn}.

    claims: (over arm, under arm, figure, least, text). The claim holds if the ratio over/under of a
    figure, for which more is better, is at least `least`. With `same`, the interval must contain 1 or
    lie above it, and be narrower than 4 %. With None, the ratio is only reported.
    controls: (over arm, under arm, figure) of two equal arms, whose ratio shows the noise."""

    def __init__(self, name, arms, claims=(), most=3 * ratio.MIN_ROUNDS, controls=(), **about):
        self.name, self.arms, self.claims, self.most, self.about = name, arms, claims, most, about
        self.controls = controls
        self.rounds, self.known = [], {}
        self.sets = []  # the set of each round, if processes are renewed

    def turn(self, chance, keep=True, number=None):
        """Runs one round. `number` is the number of its set."""
        names = list(self.arms)
        chance.shuffle(names)
        figures = {name: self.arms[name]() for name in names}
        if keep:
            self.rounds.append(figures)
            if number is not None:
                self.sets.append(number)

    def lacks(self):
        """Returns why the interval is not reliable yet, such as too few rounds, or ""."""
        if len(self.rounds) < ROUNDS:
            return f"{len(self.rounds)} of {ROUNDS} rounds"
        sets = len(set(self.sets))
        return f"{sets} of {SETS} sets of processes" if self.sets and sets < SETS else ""

    def ratio(self, over, under, figure):
        """Returns (median, low, high) of over/under for a figure of which more is better. The result is cached."""
        asked = over, under, figure, len(self.rounds)
        if asked not in self.known:
            self.known[asked] = ratio.bootstrap(self.rounds, lambda rounds: statistics.median(
                r[over][figure] / r[under][figure] for r in rounds), draws=1000, sets=self.sets)
        return self.known[asked]

    def judged(self):
        """Returns [(claim, good, value, low, high)]."""
        result = []
        for claim in self.claims if self.rounds else ():
            over, under, figure, least, _ = claim
            value, low, high = self.ratio(over, under, figure)
            good = (least is None or
                    ((high >= 1 and (high - low < 0.04 or low >= 1)) if least == "same" else low >= least))
            result.append((claim, good, value, low, high))
        return result

    def noise(self):
        """Returns [(control, value, low, high)]."""
        return [(control, *self.ratio(*control)) for control in self.controls]

    def record(self):
        first = self.rounds[0] if self.rounds else {}
        medians = {arm: {figure: statistics.median(r[arm][figure] for r in self.rounds)
                         for figure in figures} for arm, figures in first.items()}
        return {"case": self.name, **self.about, "medians": medians, "samples": self.rounds,
                **({"sets": self.sets} if self.sets else {}), "lacks": self.lacks(),
                "claims": [{"over": c[0], "under": c[1], "figure": c[2], "least": c[3], "text": c[4],
                            "good": good, "ratio": value, "low": low, "high": high}
                           for c, good, value, low, high in (self.judged() if self.rounds else ())],
                "controls": [{"over": c[0], "under": c[1], "figure": c[2], "ratio": value, "low": low, "high": high}
                             for c, value, low, high in (self.noise() if self.rounds else ())]}


def renew(fleet, cases, chance):
    """Starts new processes for all arms, with a warm-up turn of each case."""
    for arm in fleet.values():
        arm.leave()
    for arm in fleet.values():
        arm.renew()
    for case in cases:
        case.turn(chance, keep=False)


def rounds(cases, until, least=None, seed=None, renewed=None, each=RENEWED):
    """Runs rounds of all cases, and then more rounds of cases whose claims do not hold yet, until time.monotonic() is
    `until`.

    `renewed` has the arms {name: Arm} that get new processes after each set of `each` rounds. The addresses of a
    process's memory may affect small copies more than the arms do, and more rounds of the same processes would not
    show that. So there are at least SETS sets."""
    if not cases:
        return
    chance, number = random.Random(seed), 0 if renewed else None
    if least is None:
        least = max(ROUNDS, SETS * each) if renewed else ROUNDS
    for case in cases:
        case.turn(chance, keep=False)  # warm
    for done in range(least):
        if time.monotonic() > until:
            print(f"# out of time after {done} rounds", flush=True)
            return
        if renewed and done and done % each == 0:
            renew(renewed, cases, chance)
            number += 1
        order = list(cases)
        chance.shuffle(order)
        for case in order:
            case.turn(chance, number=number)
    while not DRY and time.monotonic() < until:
        open_ones = [c for c in cases if len(c.rounds) < c.most and not all(j[1] for j in c.judged())]
        if not open_ones:
            return
        if renewed:
            renew(renewed, open_ones, chance)
            number += 1
        for case in open_ones:
            for _ in range(each):
                if time.monotonic() < until:
                    case.turn(chance, number=number)


def keep(path, bench, cases, **about):
    """Writes one JSON line for each bench run: the machine, and each case with every sample."""
    if not path:
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"bench": bench, "machine": ratio.machine(), "dry": DRY, **about,
                               "cases": [case.record() for case in cases]}) + "\n")


def some_of(known):
    """Returns an argument type: some of these names, separated by commas."""
    def read(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words
    return read


def size_name(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count // scale} {unit}"
    return f"{count} B"


def show(case):
    """Prints one line for each case, claim and control."""
    if not case.rounds:
        print(f"{case.name}: not one round", flush=True)
        return
    parts = [f"{arm} {m[figure]:.3g} {figure}" for arm, m in case.record()["medians"].items()
             for figure in list(m)[:2]]
    print(f"{case.name}: " + ", ".join(parts), flush=True)
    for (over, under, _, least, text), good, value, low, high in case.judged():
        verdict = "" if least is None else f"{'holds' if good else 'MISSES'} {least} "
        print(f"    {over}/{under} {value:.3f} ({low:.3f} to {high:.3f}) {verdict}{text}", flush=True)
    for (over, under, _), value, low, high in case.noise():
        print(f"    {over}/{under} {value:.3f} ({low:.3f} to {high:.3f}) by chance", flush=True)
