# SPDX-License-Identifier: Apache-2.0
"""Logs and reports that tests write, and the answer of `gpufeed report`."""

import json

import pytest

from conftest import COMMAND
from schemakit import Schema

STARTED = 1000000000.0
ANSWER = Schema("answer.json")
SITES = {"load": ("/home/user/train.py", 4), "collate": ("/home/user/train.py", 9)}


def line(**fields):
    return json.dumps(fields, separators=(",", ":")) + "\n"


def process(pid=7, rank=-1, host="one", at=0.0):
    return line(event="process", time=STARTED + at, mono=100 + at, pid=pid, tid=pid, schema=2, version="0.1.0",
                program="/usr/bin/python3", ppid=1, rank=rank, local_rank=rank, host=host, container=None, job={}, stall_us=1000)


def stall(at, us, cause="purge", site="load", pid=7, **fields):
    file, number = SITES[site]
    python = [{"file": "/usr/lib/python3.11/queue.py", "line": 1, "function": "get"},
              {"file": file, "line": number, "function": site}, {"file": file, "line": 99, "function": "<module>"}]
    return line(**{"event": "stall", "time": STARTED + at, "mono": 100 + at, "pid": pid, "tid": pid, "call": "free", "size": 4096,
                   "us": us, "start": 100 + at - us / 1e6, "parts_us": {"rest": us}, "thread": "python3", "block_node": None,
                   "gpu": None, "python": python, "cause": cause, "evidence": "none", **fields})


def end(at, pid=7):
    return line(event="threads", time=STARTED + at, mono=100 + at, pid=pid, tid=pid, interval_ms=1000, throttled_ms=0, threads=[])


def marks(at, steps, pid=7, **fields):
    """A line with marks of steps: {number: seconds after the first mark}, and 0 for an end."""
    numbers, times = zip(*steps)
    return line(event="steps", time=STARTED + at + times[-1], mono=100 + at + times[-1], pid=pid, tid=pid, start=100 + at,
                steps=list(numbers), after_us=[round(time * 1e6) for time in times], **fields)


STATES = ("empty", "copying", "communicating", "queued", "unknown")


def activity(at, pid=7, seconds=1, states=None, copies=(), longest=()):
    """A line of `activity` that ends at `at`. copies: (direction, way, bytes); longest: (begin, us, bytes, direction, tid)."""
    gpus = [{"device": 0, **{f"{state}_ms": states.get(state, 0) for state in STATES}}] if states else []
    return line(event="activity", time=STARTED + at, mono=100 + at, pid=pid, tid=pid, interval_ms=round(1000 * seconds), gpus=gpus,
                copies=[{"direction": direction, "way": way, "calls": 1, "bytes": size, "us": 5} for direction, way, size in copies],
                longest=[{"start": 100 + begin, "us": us, "bytes": size, "direction": direction, "way": "staged", "tid": tid}
                         for begin, us, size, direction, tid in longest])


def finding(status, check, summary, fix=None):
    return {"check": check, "status": status, "summary": summary, "evidence": None, "why": fix and "it is slow", "page": None, "fix": fix,
            "script": None, "docker": None, "kubernetes": None, "slurm": None}


DOCTOR = {"schema": 2, "version": "0.1.0", "findings": [finding("ok", "quota", "no CPU quota"),
                                                        finding("problem", "memlock", "little memory may be locked", "raise the limit"),
                                                        finding("unknown", "thp", "cannot be read")]}


def copied(calls, size, seconds):
    return {"calls": calls, "bytes": calls * size, "duration_s": seconds}


def report(pid=7, rank=-1, state="ended", to_device=None, **fields):
    none = copied(0, 0, 0)
    way = {"staged": none, "inaccessible_bytes": 0, "pinned": none, "driver": none, "reasons": {}, "other": none}
    return {"schema": 1, "version": "0.1.0", "pid": pid, "program": "/usr/bin/python3", "started": int(STARTED), "ran_s": 100,
            "state": state, "observe": False, "options": {}, "start": {"rank": {"rank": rank}},
            "transfers": {"staging_off": None, "ring": {"peak_bytes": 0}, "to_device": {**way, **(to_device or {})},
                          "from_device": way, "small": {"copies": 0, "bytes": 0},
                          "pinning_at_source": {"saves_at_most_s": 0.0}}, **fields}


@pytest.fixture
def shown(run, tmp_path):
    """Writes each text to a file of the folder `job`, and runs `gpufeed report` on the folder or on the given
    operands."""
    def call(*texts, flags=(), operands=(), check=True, **env):
        (tmp_path / "job").mkdir(exist_ok=True)
        for index, text in enumerate(texts):
            text = text if isinstance(text, str) else json.dumps(text, indent=2) + "\n"
            (tmp_path / "job" / f"file{index}").write_text(text)
        done = run(COMMAND, "report", *flags, *(operands or [tmp_path / "job"]), preload=False, **{"TZ": "UTC", **env})
        if check:
            assert (done.returncode, done.stderr) == (0, ""), done
            assert len(done.stdout.splitlines()) <= 50 or flags
        return done
    return call


def answer(shown, *texts, flags=(), **how):
    found = json.loads(shown(*texts, flags=["--json", *flags], **how).stdout)
    assert ANSWER.errors(found) == []
    return found


def table(found, by):
    return {row["name"]: row for part in found["tables"] if part["by"] == by for row in part["rows"]}


LOG = process() + stall(10, 4000) + stall(20, 2000) + stall(30, 1000, "lock", "collate") + end(100)


def gpu_time(states, causes, samples=1000):
    """The section of a report with one GPU; seconds by name."""
    whole = sum(states.values())
    rows = [{name: {"s": s, "share": s / whole} for name, s in part.items()} for part in (states, causes)]
    return {"sampled": True, "reason": None, "cpu_us": 3, "devices": [{"device": 0, "s": whole, "samples": samples, "states": rows[0],
                                                                      "causes": rows[1], "gaps": 1, "longest_gaps": []}]}
