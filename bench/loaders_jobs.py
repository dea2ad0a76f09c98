# SPDX-License-Identifier: Apache-2.0
"""Processes of bench/loaders.py: jobs of one or more ranks, a neighbour beside them, their answers and reports."""

import collections
import itertools
import json
import os
import pathlib
import time

import arms

MIB = 1 << 20
PATIENCE = 90  # seconds for an answer
NUMBERS = itertools.count()  # of jobs
SETTLE, ALONE = (0.1, 0.3) if arms.DRY else (0.3, 0.5)  # seconds in which a neighbour fills its queues, and runs alone


def figures(first, second=None):
    """Returns the figures of one process, from the answers for its first and second load."""
    gigabytes = first["bytes"] / 1e9
    return {"GB/s": gigabytes / max(first["seconds"] - first.get("meta", 0), 1e-9),
            **({"second GB/s": gigabytes / max(second["seconds"] - second.get("meta", 0), 1e-9)} if second else {}),
            "CPU s/GB": first["cpu"] / gigabytes, "RSS GiB": first["rss"] / 1024,
            **({"meta s": first["meta"]} if "meta" in first else {})}


def counted(report):
    """Returns {(direction, reason): (calls, bytes)} of a report's large copies. The reason of staged copies is
    `staged`."""
    found = collections.Counter()
    transfers = (report or {}).get("transfers") or {}
    for direction in ("to_device", "from_device"):
        one = transfers.get(direction) or {}
        for kind, copies in (("staged", one.get("staged")), ("pinned", one.get("pinned")), *(one.get("reasons") or {}).items()):
            for figure in ("calls", "bytes"):
                found[direction, kind, figure] += (copies or {}).get(figure, 0)
    found["ring", "stream_waits", "calls"] = (transfers.get("ring") or {}).get("stream_waits", 0)
    return found


def explained(before, after):
    """Returns one line: how many large copies were staged between two reports, and why others were not."""
    before, after = counted(before), counted(after)
    kinds = sorted({key[:2] for key in after}, key=lambda kind: -(after[(*kind, "bytes")] - before[(*kind, "bytes")]))
    parts = []
    for way, kind in kinds:
        calls = after[way, kind, "calls"] - before[way, kind, "calls"]
        size = after[way, kind, "bytes"] - before[way, kind, "bytes"]
        if calls:
            parts.append(f"{way} {kind}: {calls} calls" + (f", {size / MIB:.0f} MiB" if size else ""))
    return "; ".join(parts) or "no large copies"


class Sums:
    """Checksums of loaded bytes, which must be equal in all arms and turns of a case."""

    def __init__(self):
        self.seen = {}

    def take(self, arm, answer):
        if "sum" in answer:
            self.seen.setdefault(answer["sum"], set()).add(arm)

    def wrong(self):
        if "differs" in self.seen or len(self.seen) > 1:
            return f"bytes differ: {({value: sorted(where) for value, where in self.seen.items()})}"
        return ""


def answer(arm, line="go"):
    """Sends a line to the arm, and returns its answer as a dict."""
    return answers([arm], line)[0]


def answers(ranks, line="go"):
    """Sends a line to all ranks, and then returns their answers. If one fails, the error has the messages of all."""
    try:
        for arm in ranks:
            arm.send(line)
        texts = [arm.answer() for arm in ranks]
    except (RuntimeError, OSError) as error:
        raise RuntimeError("; ".join((f"{'ours' if 'LD_PRELOAD' in ranks[0].made[1] else 'plain'}: {error}",
                                      *(arm.stderr()[-1500 // len(ranks):] for arm in ranks)))) from None
    try:
        return [json.loads(text) for text in texts]
    except ValueError:
        raise RuntimeError(f"{ranks[0].command} said {texts[0][:200]!r}") from None


def joined(parts):
    """Returns the answer of a job: it ends with its last rank, and its resident size is that of its largest rank."""
    if len(parts) == 1:
        return parts[0]
    whole = {"seconds": max(part["seconds"] for part in parts), "rss": max(part["rss"] for part in parts),
             **{name: sum(part[name] for part in parts) for name in ("bytes", "cpu")}}
    return {**whole, **({"sum": " ".join(part["sum"] for part in parts)} if "sum" in parts[0] else {})}


class Job:
    """The processes that run a program together: one process, or a rank for each GPU, as torchrun starts them."""

    def __init__(self, line, env, count=1):
        self.name = f"{os.getpid()}-{next(NUMBERS)}"
        ranks = [{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "GF_JOB": self.name, "OMP_NUM_THREADS": 1}
                 for rank in range(count)] if count > 1 else [{}]
        self.ranks = [arms.Arm(line, **env, **rank) for rank in ranks]
        for arm in self.ranks:
            arm.patience = PATIENCE

    def begin(self):
        for arm in self.ranks:
            arm.begin()

    def ask(self, line="go"):
        return joined(answers(self.ranks, line))

    def leave(self):
        for arm in self.ranks:
            arm.leave()

    def finish(self):
        self.leave()
        for arm in self.ranks:
            finish(arm)

    def kill(self):
        for arm in self.ranks:
            arm.kill()


class Fleet:
    """Jobs that have imported their libraries, but not yet started CUDA. Several start at the same time."""

    def __init__(self, made, batch, ranks=1):
        self.made, self.batch, self.ranks, self.waiting = made, batch, ranks, {name: [] for name in made}

    def fill(self, count=None):
        for name, (line, env) in self.made.items():
            missing = (count or self.batch) - len(self.waiting[name])
            self.waiting[name] += [Job(line, env, self.ranks) for _ in range(missing)]
        for waiting in self.waiting.values():
            for job in waiting:
                job.begin()

    def take(self, name):
        if not self.waiting[name]:
            self.fill()
        return self.waiting[name].pop()

    def end(self):
        """Ends the jobs that were not used."""
        arms.end_all(dict(enumerate(arm for waiting in self.waiting.values() for job in waiting for arm in job.ranks)))


class Beside:
    """A second process that works while a program loads: the rate of its items alone, and during each load."""

    def __init__(self, line, workers):
        self.workers, self.arm = workers, arms.Arm(line)
        self.arm.patience = PATIENCE

    def rate(self, *spans):
        """Returns the items per second of all these times together."""
        times = [end - begin for begin, end in spans]
        rates = [answer(self.arm, f"go rate {begin} {end}")["rate"] for begin, end in spans]
        return sum(rate * seconds for rate, seconds in zip(rates, times)) / sum(times)

    def start(self):
        answer(self.arm, f"go start {self.workers}")
        time.sleep(SETTLE)
        begun = time.perf_counter()
        time.sleep(ALONE)
        self.alone = self.rate((begun, time.perf_counter()))

    def stop(self):
        answer(self.arm, "go stop")

    def figures(self, first, later=()):
        """`second items/s` is the rate during all later loads. `lost s/GB` is the time in which the neighbour alone would have made the items that a load of 1 GB cost it."""
        rate = self.rate(first["span"])
        lost = (1 - rate / self.alone) * first["seconds"] / (first["bytes"] / 1e9)
        return {"items/s": rate, **({"second items/s": self.rate(*(one["span"] for one in later))} if later else {}),
                "alone items/s": self.alone, "lost s/GB": lost}


def finish(arm):
    if code := arm.end():
        raise RuntimeError(f"{arm.command} ended with {code}: {arm.stderr()[-1500:]}")


class Reports:
    """Writes a line of JSON for each report, in a file of the case's name."""

    def __init__(self, folder):
        self.folder, self.last = folder and pathlib.Path(folder), (None, None)
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def take(self, case, arm, before=None):
        report = answer(arm, "report")
        self.last = before, report
        if self.folder and report:
            name = "".join(letter if letter.isalnum() else "-" for letter in case)
            with open(self.folder / f"{name}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(report) + "\n")
        return report
