# SPDX-License-Identifier: Apache-2.0
"""`gpufeed report`: the answer in one screen, its JSON, and the files from which it comes."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tarfile
import tempfile
import textwrap

import pytest

from conftest import COMMAND, SOURCE
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


def test_sums(shown):
    found = answer(shown, LOG)
    assert found["stalls"]["count"] == 3 and found["stalls"]["us"] == 7000 and found["stalls"]["longest_us"] == 4000
    assert {name: row["us"] for name, row in table(found, "cause").items()} == {"purge": 6000, "lock": 1000}
    assert table(found, "cause")["purge"]["mostly"] == "train.py:4 in load"
    assert {name: (row["count"], row["mostly"]) for name, row in table(found, "site").items()} == \
        {"train.py:4 in load": (2, "purge"), "train.py:9 in collate": (1, "lock")}
    assert table(found, "site")["train.py:4 in load"]["first"] == pytest.approx(STARTED + 10 - 0.004, abs=1e-5)
    assert found["job"] | {"from": STARTED, "to": STARTED + 100} == found["job"]
    assert set(table(found, "thread")) == {"python3 7"} and table(found, "step") == {}


def test_the_screen_begins_with_the_verdict(shown):
    text = shown(LOG).stdout
    assert text.startswith("Stalls cost little: 3 calls stalled for 7 ms in total, the longest for 4 ms;")
    assert "The main cause of stalls is purge (86 % of the stalled time, all of it at train.py:4 in load, called from train.py:99 in <module>): " \
        "the call returned pages to the kernel." in " ".join(text.split())
    assert re.search(r"\n  train.py:4 in load +2 +6 ms +86 % +4 ms +01:46:49  purge\n", text), text
    assert "\nWhat helps\n  purge (6 ms of stalls, mostly at train.py:4 in load): a longer decay time (`dirty_decay_ms`)\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_top_and_by(shown):
    text = shown(LOG, flags=["--top", "1"]).stdout
    assert "lock" not in text.split("What helps")[0].split("Stalls by")[1] and "  and 1 more (--top)\n" in text
    text = shown(LOG, flags=["--by=site"]).stdout
    assert "\nStalls by call site" in text and not any(word in text for word in ("Stalls by cause", "What helps", "main cause", "Copies"))
    assert [part["by"] for part in answer(shown, LOG, flags=["--by", "thread"])["tables"]] == ["thread"]
    steps = process() + stall(1, 3000, step=4) + stall(2, 9000, step=5) + stall(3, 1000)
    assert list(table(answer(shown, steps, flags=["--by", "step"]), "step")) == ["step 5", "step 4"]
    assert "No stall has a step." in shown(LOG, flags=["--by=step"]).stdout
    assert "No process has a rank." in shown(LOG, flags=["--by=rank"]).stdout and "No call stalled." in shown(process(), flags=["--by=cause"]).stdout


@pytest.mark.parametrize("flags, what", [
    (["--top=0"], "--top: 0 is not a number"), (["--by=color"], "--by: color is not a property"),
    (["--since=noon"], "--since: noon is not a time"), (["--rank=1-"], "--rank: 1- is not a list"),
    (["--rank=3-1"], "--rank: 3-1 is not a list"), (["--json", "--folded"], "exclude each other"),
    (["--events", "--by=site"], "--by has no effect"), (["--tpo=3"], "did you mean --top?"), (["--top"], "--top needs a value")])
def test_flags_that_are_not_valid(run, tmp_path, flags, what):
    (tmp_path / "log").write_text(LOG)
    done = run(COMMAND, "report", tmp_path / "log", *flags, preload=False)
    assert done.returncode == 2 and done.stdout == "" and what in done.stderr and done.stderr.count("\n") == 1, done


def report_of_two():
    return [process(rank=0) + stall(10, 1000) + stall(90, 2000) + end(100), process(8, 1) + stall(95, 4000, pid=8) + end(100, 8)]


def test_since_and_rank(shown):
    two = report_of_two()
    assert answer(shown, *two)["stalls"]["us"] == 7000
    assert answer(shown, *two, flags=["--rank=0"])["stalls"]["us"] == 3000
    assert answer(shown, *two, flags=["--rank=1-9"])["job"]["processes"] == 1
    assert answer(shown, *two, flags=["--since=15s"])["stalls"]["us"] == 6000
    assert answer(shown, *two, flags=["--since=2001-09-09 01:48:13"])["stalls"]["us"] == 4000
    listed = shown(*two, flags=["--events", "--since=2001-09-09 01:48:13"]).stdout
    assert listed.count(" stall: ") == 1 and "took 4.000 ms" in listed
    assert shown(*two, flags=["--events", "--since=15s", "--rank=0"]).stdout.count(" stall: ") == 1


def test_a_time_without_a_date_is_of_the_jobs_day(shown):
    two = report_of_two()
    for flag in ("--since=01:48:13", "--since=01:48:12.5", "--since=2001-09-09T01:48:13"):
        assert answer(shown, *two, flags=[flag])["stalls"]["us"] == 4000, flag
    assert answer(shown, *two, flags=["--since=23:00"])["stalls"]["us"] == 7000  # of the day before
    assert shown(*two, flags=["--events", "--since=01:48:13"]).stdout.count(" stall: ") == 1


def test_a_filter_that_leaves_nothing_is_an_error(shown):
    two = report_of_two()
    for flag, why in (("--rank=9", "--rank: no process has such a rank; the files have ranks 0 to 1"),
                      ("--since=2026-11-24 23:18", "--since: the job ended at 2001-09-09 01:48:20, before 2026-11-24 23:18:00")):
        done = shown(*two, flags=[flag], check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpufeed report: {why}\n")


def test_events_of_many_logs_are_merged_by_time(shown):
    many = [process(10 + rank, rank, f"host{rank}") +
            "".join(stall(1 + rank * 0.1 + step, 100 * rank + step, pid=10 + rank) for step in range(5)) for rank in range(4)]
    lines = [row for row in shown(*many, flags=["--events"]).stdout.splitlines() if " stall: " in row]
    assert len(lines) == 20 and lines == sorted(lines)


def test_ranks_that_differ(shown):
    ranks = [process(10 + rank, rank, f"node{rank // 4}") +
             stall(50, 9000000 if rank == 5 else 200000, pid=10 + rank) + end(40 if rank == 2 else 100, 10 + rank)
             for rank in range(8)]
    found = answer(shown, *ranks)
    assert found["differing"] == ["rank 5 on node1 was stalled for 9 s (median 200 ms; mostly at train.py:4 in load)",
                                  "rank 2 on node0 wrote its last line 50.0 s before the other ranks"]
    assert [row["rank"] for row in found["ranks"] if row["differs"]] == [5]
    text = shown(*ranks).stdout
    assert text.startswith("Rank 5 on node1 was stalled for 9 s (median 200 ms; mostly at train.py:4 in load).\n")
    assert "\nRanks that differ\n  rank 5" in text and "purge (10.4 s of stalls, mostly of rank 5 at train.py:4 in load): a longer" in " ".join(text.split())
    even = [process(10 + rank, rank) + stall(50, 200000 + rank, pid=10 + rank) + end(100, 10 + rank) for rank in range(8)]
    assert answer(shown, *even)["job"]["ranks"] == 8
    for index in range(8):
        assert answer(shown, *even, flags=[f"--rank={index}"])["differing"] == []


def test_slow_copies_of_a_rank(shown):
    ways = [{"staged": copied(10, 1 << 30, 3.0 if rank == 1 else 0.4)} for rank in range(3)]
    found = answer(shown, *(report(20 + rank, rank, to_device=way) for rank, way in enumerate(ways)))
    assert found["differing"] == ["rank 1 copied to the GPU at 3.6 GB/s (median 26.8 GB/s)"]


def test_a_rank_with_slower_steps(shown):
    """Rank 2 is slow from step 31 on, and its GPU waits for data."""
    def steps(late):
        ends = [number * 0.1 + max(0, number - 30) * late for number in range(81)]
        return marks(1, [*((number + 1, at) for number, at in enumerate(ends[:-1])), (0, ends[-1])], pid=10 if not late else 12)
    logs = [process(10 + rank, rank) + steps(0.05 if rank == 2 else 0).replace('"pid":10', f'"pid":{10 + rank}') for rank in range(4)]
    idle = gpu_time({"empty": 5, "queued": 5}, {"data": 5, "gil": 0})
    idle["devices"][0]["lines"] = [{"cause": "data", "file": "/home/user/train.py", "line": 8, "function": "load", "s": 4.5},
                                   {"cause": "gil", "file": "x.py", "line": 1, "function": "f", "s": 1}]
    reports = [report(10 + rank, rank, gpu_time=idle if rank == 2 else gpu_time({"empty": 1, "queued": 9}, {"data": 1})) for rank in range(4)]
    found = answer(shown, *logs, *reports)
    assert found["verdict"][0] == "Rank 2 on one took 150 ms per step (median 100 ms), left its GPU without work 50 % of the time (median 10 %; " \
        "mostly waiting for data 50 % at train.py:8 in load)."
    assert any(re.fullmatch(r"Since step 31 \(01:46:44\) steps of rank 2 take 150 ms instead of 100 ms.", line) for line in found["verdict"])
    assert found["helps"][0].startswith("waiting for data (8 s of GPU time, mostly of rank 2 at train.py:8 in load): ")
    rows = {row["rank"]: row for row in found["ranks"]}
    assert [rows[rank]["differs"] for rank in range(4)] == [False, False, True, False] and rows[2]["gpu_empty_share"] == pytest.approx(0.5)
    assert rows[1]["step_s"] == pytest.approx(0.1, abs=1e-4) and rows[2]["step_s"] == pytest.approx(0.15, abs=1e-4)
    text = shown(*logs, *reports, flags=["--by=rank"]).stdout
    assert re.search(r"\n  2 on one +150 ms +0 us +50 % +0 us +-\n  \d on one +100 ms ", text), text


def test_a_single_long_step_is_no_onset(shown):
    one = answer(shown, process() + marks(1, [*((number, number * 0.1) for number in range(1, 60)), (60, 20), (0, 21)]))
    assert not any("steps take" in line for line in one["verdict"])


def test_all_ranks_become_slower(shown):
    ends = [number * 0.1 + max(0, number - 30) * 0.05 for number in range(81)]
    mark = [*((number + 1, at) for number, at in enumerate(ends[:-1])), (0, ends[-1])]
    found = answer(shown, *(process(10 + rank, rank) + marks(1, mark, pid=10 + rank) for rank in range(3)))
    assert found["differing"] == [] and "Since step 31 (01:46:44) steps take 150 ms instead of 100 ms." in found["verdict"]


def test_ranks_with_reports_alone(shown):
    """A report has the steps' sum, from which the mean follows."""
    found = answer(shown, *(report(10 + rank, rank, steps={"ended": 100, "us": 10**7 * (2 if rank == 1 else 1), "current": None}) for rank in range(3)))
    assert found["differing"] == ["rank 1 took 200 ms per step (median 100 ms)"] and found["ranks"][0]["step_s"] == pytest.approx(0.1)


def test_impossible_reports(shown):
    """Their sums are infinite. Other ranks keep their figures."""
    huge = gpu_time({"empty": 1e308, "queued": 1}, {"data": 1e308})
    huge["devices"] *= 3
    broken = [report(10 + rank, rank, gpu_time=huge, steps={"ended": 1, "us": 1e308}, stalls={"count": 1, "us": 1e308, "causes": {"lock": {"us": 1e308}}},
                     to_device={"staged": copied(1, 1e308, 1e-300)}) for rank in range(2)]
    found = answer(shown, *broken, report(12, 2, gpu_time=gpu_time({"empty": 1, "queued": 1}, {"data": 1})))
    assert found["ranks"][2]["gpu_empty_share"] == 0.5
    for flags in ((), ("--by=rank",), ("--rank=1",)):
        assert shown(flags=flags).stdout
    shown(flags=["--html=/dev/null"])


def test_since_leaves_the_reports_whole(shown):
    idle = gpu_time({"empty": 6, "queued": 4}, {"data": 6})
    text = shown(LOG, report(gpu_time=idle, to_device={"staged": copied(1, 1 << 30, 0.1)}), flags=["--since=90s"]).stdout
    assert text.startswith("In the whole job, the GPU had nothing to do 60 % of the time") and "\nCopies of the whole job\n" in text
    assert "\nGPU time of the whole job (10.0 s of 1 GPU)\n" in text and "--since applies to stalls and steps." in text
    assert "whole job" not in shown(LOG, report(gpu_time=idle), flags=["--since=2h"]).stdout


@pytest.mark.parametrize("ways, sentence", [
    ({"driver": copied(9, 1 << 30, 1), "reasons": {"few_threads": copied(9, 1 << 30, 1)}},
     "No copy to the GPU was staged: the driver copied all 9 GiB of pageable memory, mostly for this reason: too few copy threads"),
    ({"pinned": copied(9, 1 << 30, 1)}, "Staging was not needed: all copies used pinned memory."),
    ({"staged": copied(9, 1 << 30, 1)}, "Staging copied 9 GiB to the GPU at 9.7 GB/s; the driver copied nothing to compare with (`gpufeed compare`"),
    ({"staged": copied(9, 1 << 30, 2), "driver": copied(1, 1 << 30, 0.1)}, "Staging did not help: 9 GiB to the GPU were staged at 4.8 GB/s")])
def test_whether_staging_helped(shown, ways, sentence):
    assert sentence in " ".join(shown(report(to_device=ways)).stdout.split())


def test_copies_that_are_all_too_small_to_examine(shown):
    few = report()
    few["transfers"]["small"] = {"copies": 100, "bytes": 100 * (8 << 20)}
    assert "smaller copies: 100 (800 MiB)" in shown(few).stdout
    few["transfers"]["to_device"]["staged"] = copied(1, 1 << 30, 0.1)
    assert "smaller copies" not in shown(few).stdout


def test_since_when(shown):
    calm = "".join(stall(at, 1000) for at in range(1, 200, 2))
    late = "".join(stall(at, 60000) for at in range(200, 300, 2))
    found = answer(shown, process() + calm + late + end(300))
    assert found["stalls"]["onset_step"] is None
    assert abs(found["stalls"]["onset"] - (STARTED + 200)) <= 10 and found["stalls"]["onset_factor"] >= 3
    assert any(sentence.startswith("Since 01:4") or sentence.startswith("Since 01:5") for sentence in found["verdict"])
    even = process() + "".join(stall(at, 1000) for at in range(1, 300, 2)) + end(300)
    assert answer(shown, even)["stalls"]["onset"] is None
    steps = "".join(stall(at, 1000, site="collate", step=at) for at in range(1, 200, 2)) + \
        "".join(stall(at, 60000, step=at) for at in range(200, 300, 2))
    found = answer(shown, process(rank=3) + steps + end(300))
    assert found["stalls"]["onset_step"] == 200 and any(re.match(r"Since 01:(49|50):\d\d \(step 200 of rank 3\) stalls take ", line) for line in found["verdict"])


def test_stalls_before_the_first_step_are_no_onset(shown):
    """The program starts without stalls, and allocates just before its first step."""
    log = process() + "".join(stall(10 + at / 10, 9000) for at in range(30)) + "".join(stall(at, 3000) for at in range(14, 100)) + \
        marks(13.5, [(number, number - 1) for number in range(1, 86)]) + end(100)
    assert answer(shown, log)["stalls"]["onset"] is None


def test_slow_steps(shown):
    even = [(number, number / 10) for number in range(1, 30)]
    first = process(7, 0) + marks(1, [*even, (30, 3.0), (0, 3.1)])
    late = process(8, 1) + stall(3, 300000, pid=8, step=20) + \
        marks(1, [(number, at + 0.5 * (number > 20)) for number, at in even] + [(0, 3.5)], pid=8)
    done = shown(first, late)
    words = " ".join(done.stdout.split())
    assert "Of 59 steps, 1 took more than 2 times the median of 100 ms; the longest is step 20 of rank 1 with 600 ms." in words
    assert re.search(r"\nSlow steps +time +of the median +stalled +at\n  step 20, rank 1 +600 ms +6.0 times +300 ms +01:46:43\n\n", done.stdout)
    found = answer(shown, first, late)["steps"]
    assert (found["ended"], found["slow"], found["median_s"]) == (59, 1, pytest.approx(0.1, abs=1e-6))
    assert found["rows"][0] == {"step": 20, "rank": 1, "pid": 8, "at": pytest.approx(STARTED + 3, abs=1e-5),
                                "s": pytest.approx(0.6, abs=1e-6), "stall_us": 300000}
    assert answer(shown, first, late, flags=["--rank=0"])["steps"]["slow"] == 0
    assert answer(shown, first, late, flags=["--since=01:46:43"])["steps"]["ended"] < 59


def test_steps_whose_end_the_log_lacks_have_no_length(shown):
    found = answer(shown, process() + marks(1, [(1, 0), (2, 0.1)], skipped=5) + marks(9, [(8, 0), (9, 0.1), (10, 0.2)], last=True))
    assert found["steps"]["ended"] == 3 and max(row["s"] for row in found["steps"]["rows"]) < 0.2
    assert answer(shown, process() + marks(1, [(1, 0)]))["steps"] == {"ended": 0, "slow": 0, "median_s": None, "rows": []}
    damaged = line(event="steps", time=STARTED, mono=100, pid=7, tid=7, start=100, steps=[1, 2, 3, -4, "x"], after_us=[0, 1e9, None])
    assert answer(shown, process() + damaged + line(event="steps", pid=7, steps=7, after_us=[1]))["steps"]["ended"] <= 2


def test_reports_say_what_staging_did(shown):
    way = {"staged": copied(40, 8 << 20, 0.02), "driver": copied(10, 8 << 20, 0.2),
           "reasons": {"slower": copied(9, 8 << 20, 0.1), "warming": copied(1, 8 << 20, 0.1)}}
    text = shown(report(to_device=way)).stdout
    assert "Staging helped: 320 MiB to the GPU were staged at 16.8 GB/s, 80 MiB copied by the driver at 0.4 GB/s." in " ".join(text.split())
    assert "  to the GPU:   320 MiB staged at 16.8 GB/s, 80 MiB by the driver at 0.4 GB/s\n" in text
    assert "by the driver (the driver was faster in recent copies): 9 (72 MiB)" in text
    found = answer(shown, report(to_device=way))
    assert found["copies"][0]["direction"] == "to_device" and found["copies"][0]["staged"]["calls"] == 40
    assert [(reason["reason"], reason["words"]) for reason in found["copies"][0]["reasons"]] == \
        [("slower", "the driver was faster in recent copies"), ("warming", "the staging ring was not ready yet")]


def test_a_report_and_a_log_of_one_process_count_once(shown):
    stalls = {"threshold_us": 1000, "count": 3, "us": 7000, "causes": {"purge": {"count": 3, "us": 7000}}}
    found = answer(shown, LOG, report(stalls=stalls))
    assert found["stalls"]["us"] == 7000 and found["job"]["processes"] == 1
    found = answer(shown, LOG, report(8, stalls=stalls))
    assert found["stalls"]["us"] == 14000 and found["job"]["processes"] == 2
    assert table(found, "cause")["purge"]["us"] == 13000


def gpu_time(states, causes, samples=1000):
    """The section of a report with one GPU; seconds by name."""
    whole = sum(states.values())
    rows = [{name: {"s": s, "share": s / whole} for name, s in part.items()} for part in (states, causes)]
    return {"sampled": True, "reason": None, "cpu_us": 3, "devices": [{"device": 0, "s": whole, "samples": samples, "states": rows[0],
                                                                      "causes": rows[1], "gaps": 1, "longest_gaps": []}]}


def test_gpu_time_leads(shown):
    idle = gpu_time({"empty": 6, "copying": 1, "queued": 3, "communicating": 0, "unknown": 0}, {"data": 5, "gil": 0.7, "new_cause": 0.3})
    busy = gpu_time({"empty": 0.2, "copying": 0, "queued": 9.8, "communicating": 0, "unknown": 0}, {"computing": 0.2})
    assert answer(shown, report(gpu_time=busy))["verdict"][0] == "The GPU nearly always had work: nothing to do 2.0 % of the time."
    done = shown(LOG, report(gpu_time=idle))
    assert " ".join(done.stdout.split()).startswith("The GPU had nothing to do 60 % of the time: waiting for data 50 %, waiting for Python's "
                                                   "lock 7.0 %, new_cause 3.0 %. ")
    assert "\nGPU time (10.0 s of 1 GPU)\n" in done.stdout
    rows = [" ".join(row.split()) for row in done.stdout.split("\nGPU time")[1].split("\n\n")[0].splitlines()[1:]]
    assert rows == ["nothing to do 60 %", "waiting for data 50 %", "waiting for Python's lock 7.0 %", "new_cause 3.0 %", "only copies 10 %",
                    "other work 30 %"]
    helps = answer(shown, LOG, report(gpu_time=idle))["helps"]
    assert helps[:2] == ["waiting for data (5 s of GPU time): more or faster loader workers (`num_workers`, `prefetch_factor`)",
                         "waiting for Python's lock (700 ms of GPU time): worker processes instead of Python threads"]
    assert not any(text.startswith("purge") for text in helps)  # its stalls are short, so no help is printed
    found = answer(shown, report(10, 0, gpu_time=idle), report(11, 1, gpu_time=busy))
    assert found["differing"] == ["rank 0 left its GPU without work 60 % of the time (median 2.0 %; mostly waiting for data 50 %)"]
    assert found["verdict"][1] == "The GPUs had nothing to do 31 % of the time: waiting for data 25 %, waiting for Python's lock 3.5 %, " \
        "new_cause 1.5 %."
    assert found["gpu_time"]["devices.0.states.empty.share"] == pytest.approx((0.6 + 0.02) / 2)


@pytest.mark.parametrize("section", [gpu_time({"empty": 6}, {}, samples=19), {"sampled": False, "devices": []}, {"devices": 7}, [],
                                     {"devices": [{"samples": 100, "states": {"empty": None, "x": {"s": -1}}, "causes": [1]}]}])
def test_gpu_time_of_nothing_is_not_said(shown, section):
    done = shown(report(gpu_time=section))
    assert "GPU time" not in done.stdout and "nothing to do" not in done.stdout


def test_no_gpu_time_no_section(shown):
    assert "GPU time" not in shown(report()).stdout


@pytest.mark.parametrize("texts, sentence", [
    (["\n"], "The log has no events"), ([""], "The log has no events"),
    ([process()], "No call stalled: no allocator or driver call took longer"),
    ([report()], "No call stalled. The reports have only sums"),
    ([report(state="running")], "Not final: 1 report of 1; the job still runs, or it was killed."),
    ([LOG + '{"event":"sta'], "Skipped 1 damaged line; the first one is "),
    (["x\n" + LOG + "[]\n{}\n"], "Skipped 3 damaged lines; the first one is "),
    ([LOG, "some notes\n" * 9], "Skipped 1 file in folders: neither a log, a report nor the doctor's findings."),
    ([process() + stall(1, 3000, dropped=12)], "The logs are incomplete: the processes dropped 12 lines.")])
def test_each_state_of_a_job_has_its_sentence(shown, texts, sentence):
    assert sentence in " ".join(shown(*texts).stdout.split())
    assert answer(shown, *texts)["verdict"]


def test_a_folder_is_searched(run, tmp_path):
    deep = tmp_path / "job" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "log").write_text(LOG)
    (deep / ".hidden").write_text(LOG)
    (deep / "loop").symlink_to(tmp_path / "job")
    os.mkfifo(deep / "fifo")
    done = run(COMMAND, "report", "--json", tmp_path / "job", preload=False)
    assert json.loads(done.stdout)["input"]["logs"] == 1
    (deep / "log").unlink()
    done = run(COMMAND, "report", tmp_path / "job", preload=False)
    assert (done.returncode, done.stdout) == (0, "There is no log and no report.\n")


def test_standard_input_and_missing_files(run, tmp_path):
    done = run(COMMAND, "report", "-", "--json", preload=False, input=LOG)
    assert json.loads(done.stdout)["stalls"]["count"] == 3
    done = run(COMMAND, "report", "-", "--json", preload=False, input=json.dumps(report(), indent=2) + "\n" + json.dumps(report()))
    assert json.loads(done.stdout)["input"]["reports"] == 2 and json.loads(done.stdout)["job"]["processes"] == 1
    done = run(COMMAND, "report", "-", "--events", "--since=1s", preload=False, input=LOG)
    assert done.returncode == 2 and "standard input can be read only once" in done.stderr
    (tmp_path / "log").write_text(LOG)
    done = run(COMMAND, "report", tmp_path / "log", tmp_path / "none", preload=False)
    assert done.returncode == 1 and "3 calls stalled" in done.stdout and "none: No such file" in done.stderr


def test_files_of_another_user(run, tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    folder = pathlib.Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        folder.chmod(0o755)
        for name, mode in (("own", 0o644), ("closed", 0o600)):
            (folder / name).write_text(LOG)
            (folder / name).chmod(mode)
        done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", COMMAND, "report", folder, preload=False, cwd=tmp_path)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 1 and "3 calls stalled" in done.stdout
    assert done.stderr == f"gpufeed report: cannot read {folder}/closed: Permission denied\n"


WRITER = """
    import ctypes, time
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    print("ready", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0
        assert cuda.cuMemFree_v2(pointer) == 0
        time.sleep(0.001)
"""


def test_beside_a_process_that_writes_and_dies(run, tmp_path):
    """Each reading finds whole lines and whole reports, and more stalls than the one before; the last one follows a SIGKILL."""
    env = run.env(sim=True, GPUFEED_LOG=tmp_path / "job" / "log", GPUFEED_REPORT=tmp_path / "job" / "report.json", GPUFEED_STALL_US=50,
                  SIM_DELAY="cuMemAlloc_v2:200")
    (tmp_path / "job").mkdir()

    def read():
        done = run(COMMAND, "report", "--json", tmp_path / "job", preload=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        found = json.loads(done.stdout)
        assert found["input"]["damaged"] == found["input"]["foreign"] == 0
        return found
    with subprocess.Popen(["/usr/bin/python3", "-c", textwrap.dedent(WRITER)], env=env, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        while read()["input"]["reports"] == 0:
            pass
        counts = [read()["stalls"]["count"] for _ in range(30)]
        while read()["stalls"]["count"] <= counts[0]:
            pass
        writer.kill()
    last = read()
    assert counts == sorted(counts) and last["stalls"]["count"] >= counts[-1] and last["job"]["running"] == 1
    assert any(note.startswith("Not final: 1 report of 1") for note in last["notes"])


def test_folded(shown):
    assert shown(LOG, flags=["--folded"]).stdout.splitlines() == [
        "train.py:99 in <module>;train.py:4 in load;queue.py:1 in get;free (purge) 6000",
        "train.py:99 in <module>;train.py:9 in collate;queue.py:1 in get;free (lock) 1000"]
    by_rank = [process(10 + rank, rank) + stall(1, 1000 + rank, pid=10 + rank) for rank in range(2)]
    assert [row.split(";")[0] for row in shown(*by_rank, flags=["--folded", "--by=rank"]).stdout.splitlines()] == ["rank 0", "rank 1"]


def test_native_stacks_make_call_sites(shown):
    bare = {"python": [], "stack": ["1+2a", "0+1"], "modules": [{"path": "/none/a.so", "build_id": ""},
                                                                  {"path": "/none/b.so", "build_id": ""}]}
    found = answer(shown, process() + stall(1, 2000, **bare) + stall(2, 1000, python=[]))
    assert {name: row["us"] for name, row in table(found, "site").items()} == {"b.so+0x2a": 2000, "(no stack)": 1000}


def test_progress_is_for_terminals_only(tmp_path):
    (tmp_path / "log").write_text(LOG)
    main, side = pty.openpty()
    with subprocess.Popen([COMMAND, "report", tmp_path / "log", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=side) as done:
        import time
        time.sleep(0.7)
        done.stdin.write(LOG.encode())
        done.stdin.close()
    os.close(side)
    said = os.read(main, 4096)
    os.close(main)
    assert done.returncode == 0 and b"read 2 of 2 files" in said and said.endswith(b"\r\x1b[K")


def rows(path, name):
    text = (SOURCE / path).read_text(encoding="utf-8")
    return re.findall(name, text, re.M)


def test_what_helps_is_what_the_documents_say():
    causes = {cause: (words, text) for cause, words, text in rows("src/cli/report/output/helps.def", r'^GF_CAUSE\((\w+), "([^"]*)", "(.*)"\)')}
    told = {cause: (words.split(";")[0], text.strip()) for cause, words, text in rows("docs/log.md", r"^\| `(\w+)` \| ([^|]+) \|([^|]*)\|$")}
    assert len(causes) > 10 and {cause: told.get(cause) for cause in causes} == causes
    hosts = dict(rows("src/cli/report/output/helps.def", r'^GF_HOST\((\w+), "([^"]*)", '))
    assert hosts == dict(rows("src/engine/report/summary_gpu_time.c", r'^ +\[gf_host_(\w+)\] = \{"([^"]*)",')) and len(hosts) >= 13
    states = dict(rows("src/cli/report/output/helps.def", r'^GF_STATE\((\w+), "(.*)"\)'))
    assert list(states) == [name for name, _ in rows("src/engine/gputime/shares.h", r'^    X\((\w+)\) +/\* (.*) \*/')]
    words = {name: text for name, text in rows("src/cli/report/output/helps.def", r'^GF_REASON\((\w+), "([^"]*)", ')}
    listed = dict(rows("src/engine/transfer/stats/copy_stats.h", r'^    X\((\w+), "([^"]*)"\)'))
    assert len(words) > 10 and words == {name: text for name, text in listed.items() if name not in ("pinned", "ends")}


@pytest.fixture(scope="module")
def eight_ranks(tmp_path_factory):
    """The recorded files of a job of eight ranks on the simulated driver. Rank 5 allocates device memory in each step
    after step 40."""
    folder = tmp_path_factory.mktemp("ranks")
    with tarfile.open(SOURCE / "tests" / "preload" / "eight_ranks.tar.xz") as recording:
        recording.extractall(folder)
    return folder / "job"


def test_five_questions_about_a_job_of_eight_ranks(run, eight_ranks):
    """One command answers them."""
    done = run(COMMAND, "report", eight_ranks, preload=False, TZ="UTC")
    assert done.returncode == 0 and done.stderr == ""
    text = " ".join(done.stdout.split())
    # Which rank is slow?
    assert text.startswith("Rank 5 on node0 took 43 ms per step (median 29 ms), was stalled for 933 ms (median 56 ms; mostly at train.py:14 in "
                           "save_samples), left its GPU without work 87 % of the time (median 73 %; mostly allocating or freeing in the driver 27 %).")
    for sentence in (
            # Which line?
            "The main cause of stalls is gpu (77 % of the stalled time, 81 % of it at train.py:14 in save_samples, called "
            "from train.py:20 in train): the call waited for the GPU or its driver.",
            # Since when? Rank 5 allocates after step 40.
            "Since 23:18:59 (step 41 of rank 5) stalls take 4 times as much time as before.",
            "Since step 41 (23:18:59) steps of rank 5 take 47 ms instead of 26 ms.",
            # Did staging help?
            "Staging made little difference: 2.5 GiB to the GPU were staged at 1.0 GB/s, 2.5 GiB copied by the driver at 1.0 GB/s.",
            # What to change?
            "What helps gpu (1 s of stalls, mostly of rank 5 at train.py:14 in save_samples): allocate and free less often: reuse the memory, or use "
            "a memory pool"):
        assert sentence in text, done.stdout


def test_the_help_explains_each_cause(run):
    text = run(COMMAND, "report", "--help", preload=False).stdout
    causes = rows("src/cli/report/output/helps.def", r'^GF_CAUSE\((\w+), "([^"]*)"')
    assert len(causes) > 10 and all(re.search(rf"^  {cause} +{re.escape(words)}$", text, re.M) for cause, words in causes)
    assert max(map(len, text.splitlines())) <= 100
