# SPDX-License-Identifier: Apache-2.0
"""Tests the parts of bench/loaders.py that need no GPU: figures, reports, checksums, the page cache, and failed
rounds."""

import json
import pathlib
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import arms  # noqa: E402
import loaders  # noqa: E402
import loaders_files  # noqa: E402
import loaders_jobs  # noqa: E402
import measured  # noqa: E402
import results  # noqa: E402


def answered(seconds, **more):
    return {"seconds": seconds, "bytes": 2_000_000_000, "cpu": 1.0, "rss": 2048, **more}


def test_figures():
    assert loaders.figures(answered(4.0)) == {"GB/s": 0.5, "CPU s/GB": 0.5, "RSS GiB": 2.0}
    # The duration of the call without weights is subtracted from that of the same load.
    both = loaders.figures(answered(4.0, meta=2.0), answered(3.0, meta=1.0))
    assert both["GB/s"] == 1.0 and both["second GB/s"] == 1.0 and both["meta s"] == 2.0


def report(staged, slower, waits=0):
    return {"transfers": {"ring": {"stream_waits": waits}, "from_device": {}, "to_device": {
        "staged": {"calls": staged, "bytes": staged << 20}, "reasons": {"slower": {"calls": slower, "bytes": slower << 20}}}}}


def test_reports_are_subtracted():
    assert loaders.explained(report(5, 1), report(8, 11, 2)) == (
        "to_device slower: 10 calls, 10 MiB; to_device staged: 3 calls, 3 MiB; ring stream_waits: 2 calls")
    assert loaders.explained(None, report(1, 0)) == "to_device staged: 1 calls, 1 MiB"
    for nothing in (None, {}, {"transfers": None}):
        assert loaders.explained(nothing, nothing) == "no large copies"


@pytest.mark.parametrize("taken, wrong", [
    ([("plain", "1"), ("ours", "1")], False),
    ([("plain", "1"), ("ours", "2")], True),
    ([("ours", "differs"), ("plain", "differs")], True),  # an arm answers `differs` if it found wrong bytes
])
def test_sums(taken, wrong):
    sums = loaders.Sums()
    for arm, value in taken:
        sums.take(arm, {"sum": value})
    sums.take("reads", {})
    assert bool(sums.wrong()) == wrong


def test_files_in_the_page_cache(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (8 << 20))
    loaders_files.bring_in(path)
    assert loaders_files.resident(path) == 1
    assert loaders_files.files_of(tmp_path) == []


class Dead:
    """An arm whose process has ended."""
    command = ["program"]

    def __init__(self, **env):
        self.made = (), env

    def send(self, _):
        raise BrokenPipeError("Broken pipe")

    def stderr(self):
        return "its last words"


@pytest.mark.parametrize("env, name", [({}, "plain"), ({"LD_PRELOAD": "libgpufeed.so"}, "ours")])
def test_an_ended_arm_is_named(env, name):
    with pytest.raises(RuntimeError, match=f"^{name}: Broken pipe; its last words"):
        loaders.answer(Dead(**env))


@pytest.mark.parametrize("name", ["pairs", "threads, one stream"])
def test_settings_reach_the_librarys_arm_only(monkeypatch, name):
    made = {}

    def steady(arms_made):
        made.update(arms_made)
        raise InterruptedError
    monkeypatch.setattr(loaders.arms, "ours", lambda **settings: settings)
    monkeypatch.setattr(loaders, "SETTINGS", {"GPUFEED_PIN": "off"})
    monkeypatch.setattr(loaders, "steady", steady)
    with pytest.raises(InterruptedError):
        loaders.runner(name)(name, None, None, 0, 0, [])
    assert made.pop("ours")[1] == {"GPUFEED_PIN": "off"}
    assert [env for _, env in made.values()] == [{}]


def failing(times):
    left = [times]

    def turn():
        if left[0]:
            left[0] -= 1
            raise RuntimeError("the arm died")
        return {"GB/s": 1.0}
    return turn


def run_pairs(failures, until, hard):
    bad, case = [], arms.Case("case", {"plain": failing(failures), "ours": failing(0)})
    loaders.pairs(case, until, hard, bad, most=20)
    return case, bad


def test_pairs_end():
    past, later = time.monotonic() - 1, time.monotonic() + 1000
    assert len(run_pairs(0, past, later)[0].rounds) == loaders.LEAST["pairs"], "its time is over, but not the whole"
    assert not run_pairs(0, past, past)[0].rounds
    assert len(run_pairs(0, later, later)[0].rounds) == 20


def test_a_failure_is_told_and_the_second_ends_the_case():
    later = time.monotonic() + 1000
    case, bad = run_pairs(1, later, later)
    assert len(case.rounds) == 20 and len(bad) == 1
    case, bad = run_pairs(100, later, later)
    assert not case.rounds and len(bad) == 2


def test_a_case_that_breaks_leaves_the_others(tmp_path, monkeypatch):
    made = arms.Case("load_file", {}, part="programs", versions="v")
    made.rounds = [{"plain": {"GB/s": 1}}]

    def run(name, *_):
        if name != "load_file":
            raise OSError("no room")
        return [made]
    monkeypatch.setattr(loaders, "runner", lambda name: run)
    monkeypatch.setattr(loaders, "make_files", lambda names, *_: ["weights.pt"])
    cases, bad = loaders.measure(["cpu", "torch.load", "load_file"], 1000, tmp_path, keep=tmp_path / "raw")
    assert cases == [made]
    assert "no room" in bad[0] and bad[1] == "torch.load: no file"
    assert json.loads((tmp_path / "raw").read_text())["cases"][0]["case"] == "load_file"


class Rank:
    """A rank that answers each line with the same answer."""
    made = (), {}

    def __init__(self, **answer):
        self.text, self.asked = json.dumps(answer), []

    def send(self, line):
        self.asked.append(line)

    def answer(self):
        return self.text

    def stderr(self):
        return self.text


def test_a_job_ends_with_its_last_rank():
    job = loaders_jobs.Job.__new__(loaders_jobs.Job)
    job.ranks = [Rank(**answered(1.0, sum="a")), Rank(**{**answered(4.0, sum="b"), "rss": 1024})]
    assert job.ask("go save") == {"seconds": 4.0, "bytes": 4_000_000_000, "cpu": 2.0, "rss": 2048, "sum": "a b"}
    assert [rank.asked for rank in job.ranks] == [["go save"]] * 2


def test_a_dead_rank_has_the_messages_of_all():
    with pytest.raises(RuntimeError, match="^plain: Broken pipe; {}; its last words"):
        loaders_jobs.answers([Rank(), Dead()])


def test_two_gpus_are_needed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(loaders, "gpus", lambda: 1)
    monkeypatch.setattr(loaders, "runner", lambda name: pytest.fail(f"{name} ran"))
    monkeypatch.setattr(loaders, "make_files", lambda names, *_: names)
    names = [name for name, what in loaders.PROGRAMS.items() if what.gpus == 2]
    assert len(names) == 2 and loaders.measure(names, 1000, tmp_path) == ([], [])
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines() if "left out" in line] == [
        "left out, because there are fewer than two GPUs"] * 2


def test_steps_are_cases():
    case = arms.Case("checkpoint", {}, [("ours", "plain", "GB/s", "same", "")], part="programs", versions="v")
    case.rounds = [{arm: {"save": {"GB/s": rate}, "load": {"GB/s": 3 * rate}} for arm, rate in (("plain", 1), ("ours", 2))}]
    save, load = loaders.each_step(case, ("save", "load"))
    assert (save.name, load.name) == ("checkpoint: save", "checkpoint: load")
    assert save.ratio("ours", "plain", "GB/s")[0] == 2 and load.record()["medians"]["plain"] == {"GB/s": 3}


def test_what_a_neighbour_loses():
    """During 2 s the neighbour has three quarters of its rate: half a second for 2 GB."""
    beside = loaders_jobs.Beside.__new__(loaders_jobs.Beside)
    beside.alone, rates = 100.0, {"0.0 2.0": 75.0, "3.0 4.0": 90.0, "5.0 8.0": 50.0}
    beside.arm = type("Asked", (), {"made": ((), {}), "send": lambda self, line: setattr(self, "span", line.partition("rate ")[2]),
                                    "answer": lambda self: json.dumps({"rate": rates[self.span]})})()
    first = answered(2.0, span=[0.0, 2.0])
    assert beside.figures(first) == {"items/s": 75.0, "alone items/s": 100.0, "lost s/GB": 0.25}
    later = [answered(1.0, span=[3.0, 4.0]), answered(3.0, span=[5.0, 8.0])]
    assert beside.figures(first, later)["second items/s"] == 60.0


def test_a_neighbours_rate():
    """Between two batches, a part of the coming one is done. A short time has a rate, too."""
    pytest.importorskip("torch")
    import loaders_batches
    made = loaders_batches.Batches(None)
    made.taken = [10.0, 11.0, 13.0]
    assert [made.done(at) for at in (9.0, 10.5, 12.5, 13.0)] == [0, 1.5, 2.75, 3]
    assert made.go("rate", "11.5", "12.0") == {"rate": 0.25 * loaders_batches.BATCH / 0.5}


def test_each_case_is_in_the_order_once():
    assert sorted(loaders.ORDER) == sorted({**loaders.PROGRAMS, **loaders.STEADY})
    assert all(loaders.nominal(name) > 0 and loaders.runner(name) for name in loaders.ORDER)


def test_table():
    """Each part has its rows, and a ratio without a bound has no verdict."""
    program = arms.Case("load_file", {}, [("ours", "plain", "GB/s", None, "")], part="programs", versions="torch 2")
    program.rounds = [{"plain": answered_figures(5), "ours": answered_figures(7)}] * 3
    threads = arms.Case("threads, one stream: 1 MiB", {}, [("ours", "driver", "GB/s", 0.97, ""), ("ours", "pinned", "GB/s", 0.45, "")],
                        part="threads", versions="torch 2")
    threads.rounds = [{"pinned": {"GB/s": 50}, "driver": {"GB/s": 5}, "ours": {"GB/s": 10}}] * 3
    pool = arms.Case("pool: 8 GiB", {}, [("ours", "plain", "GB/s", 5, "")], part="pool", versions="torch 2")
    pool.rounds = [{arm: {"GB/s": 1, "alloc us": 8, "free us": 9, "stall ms": 3} for arm in ("plain", "ours")}] * 3
    neighbour = arms.Case("neighbour, half: cpu", {}, [("ours", "plain", "GB/s", None, ""), ("ours", "plain", "items/s", None, ""),
                                                       ("ours", "plain", "second items/s", None, "")],
                          part="neighbours", workers=8, versions="torch 2")
    neighbour.rounds = [{arm: {"GB/s": 4 / rate, "items/s": rate, "second items/s": 1, "alone items/s": 5, "lost s/GB": 0.25}
                         for arm, rate in (("plain", 4), ("ours", 2))}] * 3
    run = {"bench": "loaders", "dry": False,
           "machine": {"cpu": "c", "cpus": 2, "kernel": "k", "libc": "l", "date": "2026-11-01"}}
    cases = [measured.summary(run, json.loads(json.dumps(one.record())), "") for one in (program, threads, pool, neighbour)]
    first, second, third, fourth = results.loaders(cases)
    assert "| load_file | torch 2 | 5 | 7 |  | 1.400 (1.400 to 1.400) |  |" in first
    assert "| 1 MiB | one stream | 50 | 5 | 10 | 2.000 (2.000 to 2.000) | 0.97, met in" in second and "**not met**" in second
    assert "| pool: 8 GiB | 8 | 8 | 9 | 9 | 3 | 3 |" in third
    assert ("| cpu | 8 | 5 | 4 | 2 | 0.500 (0.500 to 0.500) | 1 | 1 | 1.000 (1.000 to 1.000) | 1 | 2 | 0.25 | 0.25 | 3 |"
            in fourth)


def answered_figures(rate):
    return {"GB/s": rate, "second GB/s": rate, "CPU s/GB": 0.1, "RSS GiB": 2}
