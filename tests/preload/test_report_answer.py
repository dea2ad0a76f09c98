# SPDX-License-Identifier: Apache-2.0
"""`gpufeed report`: the answer in one screen, its JSON, and the files from which it comes."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import textwrap

import pytest

from conftest import COMMAND, SOURCE, on_terminal
from reportkit import LOG, STARTED, activity, answer, copied, end, gpu_time, line, process, report, shown, stall, table


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
        "the call returned free pages to the kernel." in " ".join(text.split())
    assert re.search(r"\n  train.py:4 in load +2 +6 ms +86 % +4 ms +01:46:49  purge\n", text), text
    assert "\nWhat helps\n  purge (6 ms of stalls, mostly at train.py:4 in load): a longer decay time (`dirty_decay_ms`)\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_top_and_by(shown):
    many = process() + "".join(stall(at, 1000, f"cause{at}") for at in range(1, 31))
    rows = [shown(many, flags=flags).stdout.count("\n  cause") for flags in ([], ["--by=cause"], ["--top=9"])]
    assert rows == [3, 20, 9] and len(table(answer(shown, many), "cause")) == 5
    text = shown(LOG, flags=["--top", "1"]).stdout
    assert "lock" not in text.split("What helps")[0].split("Stalls by")[1] and "  and 1 more (--top N)\n" in text
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
    (["--idle"], "--idle needs --folded"), (["--idle", "--folded", "--by=cause"], "with --idle, --by can only be rank"),
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
    for flag, why in (("--rank=9", "--rank: no process has any of these ranks; the files have ranks 0 to 1"),
                      ("--since=2026-11-24 23:18", "--since: the job ended at 2001-09-09 01:48:20, before 2026-11-24 23:18:00")):
        done = shown(*two, flags=[flag], check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpufeed report: {why}\n")


def test_events_of_many_logs_are_merged_by_time(shown):
    many = [process(10 + rank, rank, f"host{rank}") +
            "".join(stall(1 + rank * 0.1 + step, 100 * rank + step, pid=10 + rank) for step in range(5)) for rank in range(4)]
    lines = [row for row in shown(*many, flags=["--events"]).stdout.splitlines() if " stall: " in row]
    assert len(lines) == 20 and lines == sorted(lines)


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
    assert "\nGPU time of the whole job (10.0 s of 1 GPU)\n" in text and "--since applies to stalls, steps, and the states of GPUs in logs." in " ".join(text.split())
    assert "whole job" not in shown(LOG, report(gpu_time=idle), flags=["--since=2h"]).stdout


def test_since_uses_the_activity_of_logs(shown):
    """Only the logs know when a GPU had nothing to do. Figures of the reports are named as those of the whole job."""
    def rank(number, late):
        parts = [activity(at, 10 + number, 10, {"empty": 1000, "queued": 9000}) for at in (10, 20, 30, 40, 50)]
        parts += [activity(at, 10 + number, 10, {"empty": 100 * late, "queued": 10000 - 100 * late}) for at in (60, 70, 80, 90, 100)]
        time = gpu_time({"empty": 40 - 10 * number, "queued": 60 + 10 * number}, {"data": 40 - 10 * number})
        delays = line(event="threads", time=STARTED + 99, mono=199, pid=10 + number, tid=10 + number, interval_ms=1000, throttled_ms=0,
                      threads=[{"tid": 10 + number, "name": "python3", "delay_ms": 9000 if number == 2 else 100}])
        return process(10 + number, number) + "".join(parts) + delays, report(10 + number, number, gpu_time=time)
    texts = [text for number, late in enumerate((10, 10, 90)) for text in rank(number, late)]
    text = " ".join(shown(*texts, flags=["--since=50s"]).stdout.split())
    assert text.startswith("Rank 2 on one left its GPU without work 90 % of the time (median 10 %), in the whole job waited for a CPU for 9 s "), text
    assert "In the whole job, the GPUs had nothing to do 30 % of the time: waiting for data 30 %; since 01:47:30, 37 % of the time." in text
    assert "--since applies to stalls, steps, and the states of GPUs in logs." in text
    half = answer(shown, *texts, flags=["--since=45s"])["ranks"]  # the interval that includes this moment counts by half
    assert [row["gpu_empty_share"] for row in half] == pytest.approx([0.1, 0.1, 0.9])
    assert "whole job" not in " ".join(shown(*texts).stdout.split())


def test_logs_alone_know_how_long_a_gpu_had_nothing_to_do(shown):
    one, other = (process(pid, rank) + activity(10, pid, 10, {"empty": 2000 + 6000 * rank, "queued": 8000 - 6000 * rank})
                  for pid, rank in ((7, 0), (8, 1)))
    text = " ".join(shown(one, other).stdout.split())
    assert "The GPUs had nothing to do 50 % of the time; the report (GPUFEED_REPORT) says why." in text
    assert text.startswith("Rank 1 on one left its GPU without work 80 % of the time (median 20 %).")
    assert [row["gpu_empty_share"] for row in answer(shown, one, other)["ranks"]] == pytest.approx([0.2, 0.8])
    assert "The GPU had nothing to do 20 % of the time;" in " ".join(shown(one, other, flags=["--rank=0"]).stdout.split())


@pytest.mark.parametrize("ways, sentence", [
    ({"driver": copied(9, 1 << 30, 1), "reasons": {"few_threads": copied(9, 1 << 30, 1)}},
     "No copy to the GPU was staged: the driver copied all 9 GiB of pageable memory, mostly for this reason: too few copy threads"),
    ({"pinned": copied(9, 1 << 30, 1)}, "Staging was not needed: all copies used pinned memory."),
    ({"staged": copied(9, 1 << 30, 1)}, "Staging copied 9 GiB to the GPU at 9.7 GB/s; the driver copied nothing to compare with (`gpufeed compare`"),
    ({"staged": copied(1, 1 << 20, 0.1), "driver": copied(1, 1 << 20, 0.5)},  # rates of a short run are not 0.0
     "Staging helped: 1 MiB to the GPU were staged at 10 MB/s, 1 MiB copied by the driver at 2.1 MB/s."),
    ({"staged": copied(9, 1 << 30, 2), "driver": copied(1, 1 << 30, 0.1)}, "Staging did not help: 9 GiB to the GPU were staged at 4.8 GB/s")])
def test_whether_staging_helped(shown, ways, sentence):
    assert sentence in " ".join(shown(report(to_device=ways)).stdout.split())


def test_what_helps_is_the_remedy_of_the_reports(shown):
    """The rank with the most time for which its report has a remedy decides. Older reports have no remedies."""
    def rank(number, seconds, remedies):
        time = gpu_time({"empty": 40, "queued": 60}, {"preempted": seconds, "data": 40 - seconds})
        time["devices"][0] |= {"remedies": remedies} if remedies is not None else {}
        return report(10 + number, number, gpu_time=time)
    def helps(*ranks):
        return answer(shown, *(rank(number, *each) for number, each in enumerate(ranks)))["helps"]
    assert helps((30, {}), (20, {"preempted": "run fewer threads"}), (10, {"preempted": "run fewer workers"})) == [
        "the submitting thread had no CPU (60.0 s of GPU time): run fewer threads"]
    assert helps((30, {}), (30, {}), (30, {})) == []
    assert [text.split(" (")[0] for text in helps((30, {}), (30, None), (30, {}))] == ["the submitting thread had no CPU"]


def test_copies_that_are_all_too_small_to_examine(shown):
    few = report()
    few["transfers"]["small"] = {"copies": 100, "bytes": 100 * (8 << 20)}
    assert "smaller copies: 100 (800 MiB)" in shown(few).stdout
    few["transfers"]["to_device"]["staged"] = copied(1, 1 << 30, 0.1)
    assert "smaller copies" not in shown(few).stdout


def test_reports_say_what_staging_did(shown):
    way = {"staged": copied(40, 8 << 20, 0.02), "driver": copied(10, 8 << 20, 0.2),
           "reasons": {"slower": copied(9, 8 << 20, 0.1), "warming": copied(1, 8 << 20, 0.1)}}
    text = shown(report(to_device=way)).stdout
    assert "Staging helped: 320 MiB to the GPU were staged at 16.8 GB/s, 80 MiB copied by the driver at 0.4 GB/s." in " ".join(text.split())
    assert "  to the GPU:   320 MiB staged at 16.8 GB/s, 80 MiB by the driver at 0.4 GB/s\n" in text
    assert "by the driver (the driver was faster in recent copies, or its speed is being measured): 9 (72 MiB)" in text
    found = answer(shown, report(to_device=way))
    assert found["copies"][0]["direction"] == "to_device" and found["copies"][0]["staged"]["calls"] == 40
    assert [(reason["reason"], reason["words"]) for reason in found["copies"][0]["reasons"]] == \
        [("slower", "the driver was faster in recent copies, or its speed is being measured"), ("warming", "the staging ring was not ready yet")]


def test_a_report_and_a_log_of_one_process_count_once(shown):
    stalls = {"threshold_us": 1000, "count": 3, "us": 7000, "causes": {"purge": {"count": 3, "us": 7000}}}
    found = answer(shown, LOG, report(stalls=stalls))
    assert found["stalls"]["us"] == 7000 and found["job"]["processes"] == 1
    found = answer(shown, LOG, report(8, stalls=stalls))
    assert found["stalls"]["us"] == 14000 and found["job"]["processes"] == 2
    assert table(found, "cause")["purge"]["us"] == 13000


def test_gpu_time_leads(shown):
    idle = gpu_time({"empty": 6, "copying": 1, "queued": 3, "communicating": 0, "unknown": 0}, {"data": 5, "gil": 0.7, "new_cause": 0.3})
    busy = gpu_time({"empty": 0.2, "copying": 0, "queued": 9.8, "communicating": 0, "unknown": 0}, {"computing": 0.2})
    assert answer(shown, report(gpu_time=busy))["verdict"][0] == "The GPU nearly always had work, except for 2.0 % of the time."
    done = shown(LOG, report(gpu_time=idle))
    assert " ".join(done.stdout.split()).startswith("The GPU had nothing to do 60 % of the time: waiting for data 50 %, waiting for Python's "
                                                   "GIL 7.0 %, new_cause 3.0 %. ")
    assert "\nGPU time (10.0 s of 1 GPU)\n" in done.stdout
    rows = [" ".join(row.split()) for row in done.stdout.split("\nGPU time")[1].split("\n\n")[0].splitlines()[1:]]
    assert rows == ["nothing to do 60 %", "waiting for data 50 %", "waiting for Python's GIL 7.0 %", "new_cause 3.0 %", "only copies 10 %",
                    "other work 30 %"]
    helps = answer(shown, LOG, report(gpu_time=idle))["helps"]
    assert helps[:2] == ["waiting for data (5 s of GPU time): use more DataLoader workers, or make their work cheaper",
                         "waiting for Python's GIL (700 ms of GPU time): move the work of other threads to processes"]
    assert not any(text.startswith("purge") for text in helps)  # its stalls are short, so no help is printed
    found = answer(shown, report(10, 0, gpu_time=idle), report(11, 1, gpu_time=busy))
    assert found["differing"] == ["rank 0 left its GPU without work 60 % of the time (median 2.0 %; mostly waiting for data 50 %)"]
    assert found["verdict"][1] == "The GPUs had nothing to do 31 % of the time: waiting for data 25 %, waiting for Python's GIL 3.5 %, " \
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
    ([LOG, "some notes\n" * 9], "Skipped 1 file in folders (no log, no report, no output of `gpufeed doctor --json`)."),
    ([process() + stall(1, 3000, dropped=12)], "The logs are incomplete: the processes dropped 12 lines."),
    ([process(), report(stalls={"count": 5, "us": 9000})], "No log has a stall, but the logs are incomplete."),
    ([LOG, report(stalls={"count": 5, "us": 9000})], "The logs lack 2 stalls that the reports count:")])
def test_each_state_of_a_job_has_its_sentence(shown, texts, sentence):
    assert sentence in " ".join(shown(*texts).stdout.split())
    assert answer(shown, *texts)["verdict"]


def ended(at, event="exit", pid=7):
    return line(event=event, time=STARTED + at, mono=100 + at, pid=pid, tid=pid, text="the process ended normally")


@pytest.mark.parametrize("texts, sentence", [
    ([process() + activity(1)], "No exit is in the log of process 7: it still runs, or it was killed. The log ends at 20"),
    ([process(rank=0) + activity(5), process(8, rank=1) + activity(2, pid=8), process(9, rank=2) + activity(2, pid=9) + ended(3, pid=9)],
     "No exit is in the logs of 2 processes: they still run, or they were killed. The log of rank 1 (process 8) ends first, at 20"),
    ([process() + activity(1) + process() + stall(2, 3000)], None),  # another program; a process without a GPU does not log its exit
    ([process() + activity(1) + ended(2)], None),
    ([process() + activity(1) + ended(2, "full")], None),
    ([process() + activity(1), report(state="running")], None)])
def test_a_process_that_logged_no_exit_is_named(shown, texts, sentence):
    said = " ".join(shown(*texts).stdout.split())
    assert sentence in said if sentence else "No exit" not in said


@pytest.mark.parametrize("log, counted, state", [(LOG, 3, "ended"), (LOG, 9, "running"), (process() + stall(1, 3000, dropped=8), 9, "ended")])
def test_complete_logs_lack_nothing(shown, log, counted, state):
    """The report of a running process may be newer than its log. Dropped lines have a sentence of their own."""
    assert "The logs lack" not in " ".join(shown(log, report(state=state, stalls={"count": counted, "us": 9000})).stdout.split())


def test_other_files_in_a_folder_are_no_damaged_logs(shown):
    """Three lines of a log may be damaged, but a text without any event is no log."""
    found = answer(shown, LOG, "a note\n", "one\ntwo\nthree\n", json.dumps({"traceEvents": []}, indent=2))["input"]
    assert (found["logs"], found["foreign"], found["damaged"], found["lines"]) == (1, 3, 0, 5)


def test_a_named_file_is_in_no_folder(shown, tmp_path):
    (tmp_path / "notes").write_text("some notes\n" * 9)
    (tmp_path / "log").write_text(LOG)
    done = shown(operands=[tmp_path / "log", tmp_path / "notes"], check=False)
    assert done.returncode == 1 and "notes is neither a log" in done.stderr and "in folders" not in done.stdout


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
    assert (done.returncode, done.stdout) == (1, "There is no log and no report.\n")
    done = run(COMMAND, "report", "/proc", "/sys", preload=False, timeout=60)  # not searched: that would take minutes
    assert (done.returncode, done.stdout) == (1, "There is no log and no report.\n")


def test_a_file_with_several_names_counts_once(shown, tmp_path):
    """A folder may have a link to its latest log."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "latest").symlink_to("file0")
    done = shown(LOG, operands=[tmp_path / "job", tmp_path / "job" / "file0", f"{tmp_path}/./job/file0"])
    assert "3 calls stalled" in done.stdout and "Skipped 3 files given more than once, under another name." in done.stdout


REPORT = json.dumps(report(), indent=2)


@pytest.mark.parametrize("text, said", [
    (REPORT[:len(REPORT) // 2], "begins like a report (GPUFEED_REPORT), but is cut off or damaged"),
    (json.dumps(report())[:-9], "begins like a report (GPUFEED_REPORT), but is cut off or damaged"),
    ("hello\n", "is neither a log (GPUFEED_LOG) nor a report (GPUFEED_REPORT)"),
    ('{"a":1}\n', "is neither a log (GPUFEED_LOG) nor a report (GPUFEED_REPORT)"),
    ("\0" * (5 << 20), "is neither a log (GPUFEED_LOG) nor a report (GPUFEED_REPORT)")], ids=["report", "line", "text", "JSON", "zeros"])
def test_a_named_file_of_another_kind_is_an_error(run, tmp_path, text, said):
    (tmp_path / "file").write_text(text)
    done = run(COMMAND, "report", "file", preload=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpufeed report: file {said}\n")
    done = run(COMMAND, "report", "--events", "file", preload=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and re.search("file (has no event|is a report|is not a log)", done.stderr), done


def test_a_log_whose_first_line_is_incomplete(run, tmp_path):
    (tmp_path / "log").write_text(process()[:80])
    done = run(COMMAND, "report", "log", preload=False, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("The log has no events"), done


def test_a_cut_report_in_a_folder_is_damaged(shown):
    found = answer(shown, LOG, REPORT[:-9])["input"]
    assert (found["logs"], found["reports"], found["foreign"], found["damaged"]) == (1, 0, 0, 1)


def test_the_main_cause_is_a_known_one(shown):
    text = shown(process() + stall(1, 4000, "unknown") + stall(2, 3000, "lock") + end(9)).stdout
    assert "The main known cause of stalls is lock (43 % of the stalled time" in " ".join(text.split())
    assert "The main cause of stalls is unknown" in shown(process() + stall(1, 4000, "unknown") + end(9)).stdout


def test_a_report_has_only_sums(shown):
    """A report counts stalls by cause, but has no stack, line or step of one."""
    stalls = {"count": 5, "us": 9000, "causes": {"lock": {"count": 5, "us": 9000}}}
    done = shown(report(stalls=stalls), flags=["--folded"], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "gpufeed report: --folded needs a log (GPUFEED_LOG): a report has no stacks\n")
    for by in ("site", "step", "thread"):
        assert f"Only a log (GPUFEED_LOG) has the {by} of a stall; a report has sums." in shown(flags=[f"--by={by}"]).stdout


@pytest.mark.parametrize("columns", [40, 50, 70, 100])
def test_a_narrow_terminal(shown, tmp_path, columns):
    shown(LOG)
    env = {**os.environ, "TZ": "UTC"}
    text = on_terminal([COMMAND, "report", tmp_path / "job"], columns, env)
    sites = text.split("Stalls by call site")[1].splitlines()
    assert re.search(r"^  train\.py:4 in load +2 +6 ms", sites[1]), text
    assert max(map(len, text.split("GPU time")[0].split("Stalls by")[0].splitlines())) <= columns


def test_rows_break_at_blanks(shown, tmp_path):
    long = "train_with_a_long_name_of_a_function_that_does_not_fit"
    found = gpu_time({"empty": 50.0, "queued": 50.0}, {"computing": 50.0})
    found["devices"][0]["lines"] = [{"cause": "computing", "file": "/a/train.py", "line": 7, "function": long, "s": 50.0}]
    shown(report(gpu_time=found))
    text = on_terminal([COMMAND, "report", tmp_path / "job"], 80, os.environ)
    assert f"\n      train.py:7 in {long}\n" in text and max(map(len, text.splitlines())) <= 80, text


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
    """Each reading finds whole reports, whole lines before the last one, and more stalls than before; the last reading follows a SIGKILL."""
    env = run.env(sim=True, GPUFEED_LOG=tmp_path / "job" / "log", GPUFEED_REPORT=tmp_path / "job" / "report.json", GPUFEED_STALL_US=50,
                  SIM_DELAY="cuMemAlloc_v2:200")
    (tmp_path / "job").mkdir()

    def read():
        done = run(COMMAND, "report", "--json", tmp_path / "job", preload=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        found = json.loads(done.stdout)
        assert found["input"]["damaged"] <= 1 and found["input"]["foreign"] == 0  # the kernel may be appending the last line
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


IDLE = {"devices": [{"paths": [{"cause": "sleep", "path": "train.py:<module>;train.py:nap", "s": 1.25},
                               {"cause": "gc", "path": "...;train.py:step\x1b", "s": 0.5}, {"cause": "data", "path": "x", "s": 0}, 1, {"s": 1}, {"path": 5, "s": 1e300}]},
                    {"paths": [{"cause": "sleep", "path": "train.py:<module>;train.py:nap", "s": 0.75}]}, {}]}


def test_folded_time_without_work(shown):
    ranks = [report(10 + rank, rank, gpu_time=IDLE) for rank in range(2)]
    rows = ["train.py:<module>;train.py:nap;sleep 4000000", "...;train.py:step?;gc 1000000"]
    assert shown(*ranks, flags=["--folded", "--idle"]).stdout.splitlines() == rows
    assert shown(*ranks, flags=["--folded", "--idle", "--rank=1", "--by=rank"]).stdout.splitlines() == [
        "rank 1;train.py:<module>;train.py:nap;sleep 2000000", "rank 1;...;train.py:step?;gc 500000"]
    done = shown(LOG, report(), flags=["--folded", "--idle"], check=False)
    assert (done.returncode, done.stderr) == (1, "gpufeed report: --idle needs a report (GPUFEED_REPORT) with Python stacks: no report has one\n")


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
        time.sleep(3)  # progress is shown from half a second after the command's start
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
    causes = {cause: (words, text) for cause, words, text in rows("src/tools/answer/helps.def", r'^GF_CAUSE\((\w+), "([^"]*)", "(.*)"\)')}
    told = {cause: (words.split(";")[0], text.strip()) for cause, words, text in rows("docs/log.md", r"^\| `(\w+)` \| ([^|]+) \|([^|]*)\|$")}
    assert len(causes) > 10 and {cause: told.get(cause) for cause in causes} == causes


def test_the_help_explains_each_cause(run):
    text = run(COMMAND, "report", "--help", preload=False).stdout
    causes = rows("src/tools/answer/helps.def", r'^GF_CAUSE\((\w+), "([^"]*)"')
    whole = re.sub(r"\n {14}(?=\S)", " ", text)  # lines are broken at 80 columns
    assert len(causes) > 10 and all(re.search(rf"^  {cause} +{re.escape(words)}$", whole, re.M) for cause, words in causes)
    assert max(map(len, text.splitlines())) <= 80
