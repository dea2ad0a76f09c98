# SPDX-License-Identifier: Apache-2.0
"""`gpufeed report`: which rank is slow, and since when."""

import re
import tarfile

import pytest

from conftest import COMMAND, SOURCE
from reportkit import STARTED, answer, copied, end, gpu_time, line, marks, process, report, shown, stall


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


@pytest.mark.parametrize("file, function", [(300, 300), (900, 500)])
def test_long_names_leave_space_for_the_rest(shown, file, function):
    """Names of native functions have up to 1600 bytes. What follows a name, and the remedy, are whole."""
    python = [{"file": f"/p/{'f' * file}.py", "line": 3, "function": "g" * function},
              {"file": f"/p/{'h' * file}.py", "line": 9, "function": "m" * function}]
    found = answer(shown, process(10, 0) + stall(50, 9000000, "faults", pid=10, python=python) + end(40, 10), *(
        process(10 + rank, rank) + stall(50, 20000, "faults", pid=10 + rank, python=python) + end(100, 10 + rank) for rank in (1, 2)))
    cause, = [text for text in found["verdict"] if "main cause" in text]
    assert f"at {'f' * file}.py:3 in {'g' * function}, called from {'h' * file}.py:9 in {'m' * function}): the call was" in cause
    assert re.search(r"; mostly at f{255}\), wrote its last line 50.0 s ", found["differing"][0])
    assert re.search(r"faults \(9 s of stalls, mostly of rank 0 at f.*\): reuse buffers$", found["helps"][0])


def test_slow_copies_of_a_rank(shown):
    ways = [{"staged": copied(10, 1 << 30, 3.0 if rank == 1 else 0.4)} for rank in range(3)]
    found = answer(shown, *(report(20 + rank, rank, to_device=way) for rank, way in enumerate(ways)))
    assert found["differing"] == ["rank 1 copied to the GPU at 3.6 GB/s (median 26.8 GB/s)"]
    assert found["helps"] == ["pinned and staged copies of rank 1 are slow (3.6 GB/s, median 26.8 GB/s), perhaps because of its PCIe link: run `gpufeed "
                              "doctor` on its host, and read \"GPU Link Info\" of `nvidia-smi -q` while the rank copies"]


def test_slow_copies_of_pageable_memory_are_no_slow_link(shown):
    """The driver copies some batches of rank 1 slowly. Its staged copies are as fast as those of the other ranks."""
    ways = [{"staged": copied(10, 1 << 30, 0.4), "driver": copied(10, 1 << 30, 9.0 if rank == 1 else 0)} for rank in range(3)]
    found = answer(shown, *(report(20 + rank, rank, to_device=way) for rank, way in enumerate(ways)))
    assert found["differing"] == ["rank 1 copied to the GPU at 2.3 GB/s (median 26.8 GB/s)"] and not any("link" in help for help in found["helps"])


def test_a_rank_whose_gpu_copies_for_longer(shown):
    def time(copying):
        return gpu_time({"empty": 2, "copying": copying, "queued": 8 - copying}, {"data": 2})
    found = answer(shown, *(report(20 + rank, rank, gpu_time=time(5 if rank == 1 else 1)) for rank in range(3)))
    assert found["differing"] == ["rank 1 had only copies on its GPU 50 % of the time (median 10 %)"]


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


def test_stalls_at_start_and_end_are_of_no_step(shown):
    """Rank 1 stalls for long before its first step and after its last one."""
    mark = [*((number, number - 1) for number in range(1, 81)), (0, 80)]
    around = "".join(stall(at, 90000, pid=11) for at in (*range(1, 9), *(90 + part / 10 for part in range(40))))
    found = answer(shown, *(process(10 + rank, rank) + marks(9, mark, pid=10 + rank) + around * rank + end(100, 10 + rank) for rank in range(3)))
    assert found["differing"] == [] and found["stalls"]["onset"] is None and found["ranks"][1]["stall_s"] == pytest.approx(48 * 0.09)


def test_medians_between_fast_and_slow_steps_differ_by_chance(shown):
    """All ranks become slower in the middle of the job, one of them three steps earlier."""
    def steps(rank):
        late, ends = 38 if rank == 2 else 41, [0.0]
        for number in range(80):
            ends.append(ends[-1] + (0.2 if number >= late else 0.1))
        return process(10 + rank, rank) + marks(1, [*((number + 1, at) for number, at in enumerate(ends[:-1])), (0, ends[-1])], pid=10 + rank)
    found = answer(shown, *map(steps, range(4)))
    assert [row["step_s"] for row in found["ranks"]] == pytest.approx([0.1, 0.1, 0.2, 0.1], abs=1e-4)
    assert found["differing"] == [] and "Since step 42 (01:46:45) steps take 200 ms instead of 100 ms." in found["verdict"]


def step_times(p50, source="copies", slow=(), **fields):
    return {"source": source, "copy_bytes": 8 << 20 if source == "copies" else None, "steps": 399, "p50_ms": p50, "p99_ms": 2 * p50,
            "max_ms": 9 * p50, "data_wait_ms": 12.5, "slow_steps": 3, "slow": list(slow), **fields}


def test_steps_of_reports_without_marks(shown):
    slowest = {"at_s": 1.0, "ms": 900.0, "difference": "idle", "cause": "storage", "idle_ms": 600.0, "stall": None, "stall_ms": 0.0}
    one = report(step_times=step_times(100.0, slow=[slowest]))
    found = answer(shown, one)
    said = ("The median of 399 steps (a copy of 8 MiB to the GPU begins each) is 100 ms, the 99th percentile 200 ms; the longest took 900 ms, "
            "in which the GPU had nothing to do for 600 ms: waiting for workers, which wait for a file or the network. "
            "The mean step waits 12 ms for data (12 % of the median).")
    assert said in found["verdict"]
    assert said.split(" steps ")[0] in " ".join(shown(one).stdout.split())
    assert found["reported_steps"] == [{
        "rank": -1, "pid": 7, "source": "copies", "copy_bytes": 8 << 20, "count": 399, "p50_s": 0.1, "p99_s": 0.2, "max_s": 0.9,
        "data_wait_s": 0.0125, "slow": 3, "difference": "idle"}]
    few = answer(shown, report(step_times=step_times(100.0, slow=[slowest], steps=99)))["verdict"]
    assert any(" is 100 ms; the longest took 900 ms, " in line for line in few)
    stalled = {**slowest, "difference": "stall", "stall": "purge", "stall_ms": 500.0}
    assert any(", in which calls stalled for 500 ms: purge." in line
               for line in answer(shown, report(step_times=step_times(100.0, slow=[stalled])))["verdict"])
    assert not any("median of" in line for line in answer(shown, report(step_times=None))["verdict"])


def test_a_rank_with_slower_steps_that_were_detected(shown):
    found = answer(shown, *(report(10 + rank, rank, step_times=step_times(150.0 if rank == 2 else 100.0, data_wait_ms=None)) for rank in range(4)))
    assert found["differing"] == ["rank 2 took 150 ms per step (median 100 ms)"]
    assert [row["rank"] for row in found["reported_steps"]] == [2, 0, 1, 3]
    assert any(line.startswith("The median of 399 steps (a copy of 8 MiB to the GPU begins each) of rank 2, the slowest of 4, is 150 ms") for line in found["verdict"])


def test_marks_in_a_log_come_before_reported_steps(shown):
    found = answer(shown, process() + marks(1, [(1, 0), (2, 0.1), (0, 0.2)]), report(step_times=step_times(100.0, "marks")))
    assert found["steps"]["ended"] == 2 and not any("The median of" in line for line in found["verdict"])


def test_damaged_step_times_are_tolerated(shown):
    for times in ({}, [], {"steps": 1e308, "slow": [7], "source": 3}, {"steps": "x"}, step_times(1e307, "x\x1b", data_wait_ms="y")):
        assert answer(shown, report(step_times=times))


def test_slow_steps_have_the_reason_of_the_report(shown):
    even = [(number, number / 10) for number in range(1, 30)]
    log = process(7, 0) + marks(1, [*even, (30, 3.5), (0, 3.6)])
    for slow, reason in (({"difference": "idle", "cause": "data"}, "  waiting for data"), ({"difference": "quota"}, "  quota"),
                         ({"difference": "idle", "cause": "data", "at_s": 0.5}, ""), ({"difference": None}, "")):
        row = {"at_s": 2.9, "ms": 600.0, "idle_ms": 500.0, "throttled_ms": 500.0, **slow}
        done = shown(log, report(7, 0, step_times=step_times(100.0, "marks", slow=[row])))
        assert re.search(rf"\n  step 29, rank 0 +600 ms +6.0 times +- +[\d:]+{reason}\n", done.stdout), done.stdout
        assert answer(shown, log, report(7, 0, step_times=step_times(100.0, "marks", slow=[row])))["steps"]["rows"][0]["reason"] == (
            reason.strip() or None)


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
                                "s": pytest.approx(0.6, abs=1e-6), "stall_us": 300000, "reason": None}
    assert answer(shown, first, late, flags=["--rank=0"])["steps"]["slow"] == 0
    assert answer(shown, first, late, flags=["--since=01:46:43"])["steps"]["ended"] < 59


def test_steps_whose_end_the_log_lacks_have_no_length(shown):
    found = answer(shown, process() + marks(1, [(1, 0), (2, 0.1)], skipped=5) + marks(9, [(8, 0), (9, 0.1), (10, 0.2)], last=True))
    assert found["steps"]["ended"] == 3 and max(row["s"] for row in found["steps"]["rows"]) < 0.2
    assert answer(shown, process() + marks(1, [(1, 0)]))["steps"] == {"ended": 0, "slow": 0, "median_s": None, "rows": []}
    damaged = line(event="steps", time=STARTED, mono=100, pid=7, tid=7, start=100, steps=[1, 2, 3, -4, "x"], after_us=[0, 1e9, None])
    assert answer(shown, process() + damaged + line(event="steps", pid=7, steps=7, after_us=[1]))["steps"]["ended"] <= 2


@pytest.fixture
def recorded(tmp_path):
    """recorded(name) returns the folder with the files of a recorded job of eight ranks on the simulated driver."""
    def call(name):
        with tarfile.open(SOURCE / "tests" / "preload" / f"{name}.tar.xz") as recording:
            recording.extractall(tmp_path)
        return tmp_path / "job"
    return call


def test_five_questions_about_a_job_of_eight_ranks(run, recorded):
    """One command answers them. Rank 5 allocates device memory in each step after step 40."""
    done = run(COMMAND, "report", recorded("eight_ranks"), preload=False, TZ="UTC")
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) <= 60
    text = " ".join(done.stdout.split())
    # Which rank is slow?
    assert text.startswith("Rank 5 on node0 took 43 ms per step (median 29 ms), was stalled for 841 ms in its steps (median 12 ms; mostly at "
                           "train.py:14 in save_samples), left its GPU without work 87 % of the time (median 73 %; mostly allocating or freeing in the driver 27 %).")
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


@pytest.mark.parametrize("name, first, onset, helps", [
    ("slow_loader", "Rank 0 on node0 took 42 ms per step (median 19 ms), left its GPU without work 53 % of the time (median 27 %; mostly waiting for "
     "data 33 % at train.py:34 in train_one).", "Since step 47 (11:29:36) steps of rank 0 take 45 ms instead of 20 ms.",
     "waiting for data (1.3 s of GPU time, mostly of rank 0 at train.py:34 in train_one): use more DataLoader workers"),
    ("slow_loaders", "The GPUs had nothing to do 60 % of the time: waiting for data 45 % (at train.py:34 in train_one), ",
     "Since step 39 (12:00:51) steps take 45 ms instead of 29 ms.",
     "waiting for data (15.2 s of GPU time, mostly at train.py:34 in train_one): use more DataLoader workers")])
def test_five_questions_about_slow_loaders(run, recorded, name, first, onset, helps):
    """The loader of rank 0 takes 40 ms longer from batch 45 on; the loader of each rank does so from batch 38 on. Up to
    two batches wait in a queue."""
    done = run(COMMAND, "report", recorded(name), preload=False, TZ="UTC")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0 and text.startswith(first) and onset in text and f"What helps {helps}" in text, done.stdout
    assert ("No rank differs much from the median of all ranks." in text) == (name == "slow_loaders")
    assert "Staging helped: " in text and "Since 1" not in text, done.stdout
