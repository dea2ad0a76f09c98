# SPDX-License-Identifier: Apache-2.0
"""gpufeed compare: two arms of runs, and two reports. Times are reported by the programs, never measured here."""
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import COMMAND, SIM_DIR, SOURCE

PYTHON = "/usr/bin/python3"

# A job that writes its own report, with the given times of steps.
JOB = """
    import json, os, subprocess, sys
    arm, place = os.environ["ARM"], os.environ["GPUFEED_REPORT"].replace("%p", str(os.getpid()))
    with open(os.environ["RUNS"], "a+") as runs:
        runs.seek(0)
        number = runs.read().split().count(arm)
        runs.write(arm + "\\n")
    if os.environ.get("FAILS") == f"{arm}{number}":
        print("out of", "luck")
        print("on standard error", file=sys.stderr)
        sys.exit(5)
    us = json.loads(os.environ["STEPS_US"])[arm][number]
    way = {"calls": 1, "bytes": 4 << 20, "duration_s": 0.25 if arm == "a" else 0.05}
    none = {"calls": 0, "bytes": 0, "duration_s": 0.0}
    stalls = {"faults": {"count": 3, "us": 30000}, "lock": {"count": 1, "us": 1000}} if arm == "a" else {}
    json.dump({"schema": 2, "state": "ended", "ran_s": 1.0, "steps": us and {"ended": 10, "us": us, "current": None},
               "transfers": {"to_device": {"staged": way if arm == "b" else none, "pinned": none,
                                           "driver": way if arm == "a" else none}},
               "stalls": {"count": sum(row["count"] for row in stalls.values()),
                          "us": sum(row["us"] for row in stalls.values()), "causes": stalls}}, open(place, "w"))
"""


@pytest.fixture
def compare(run, tmp_path):
    def call(*words, **env):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        found = run(COMMAND, "compare", *words, preload=False, TMPDIR=scratch, **env)
        assert not list(scratch.iterdir())
        return found
    return call


@pytest.fixture
def job(compare, tmp_path):
    """job(us of each run of a, us of each run of b) runs both arms by `gpufeed compare`."""
    def call(a, b, *words, expect=0, **env):
        program, runs = tmp_path / "job.py", tmp_path / "runs"
        program.write_text(textwrap.dedent(JOB))
        runs.unlink(missing_ok=True)
        found = compare("--arm", "a:ARM=a", "--arm", "b:ARM=b", *words, "--", PYTHON, "-IS", program,
                        STEPS_US=json.dumps({"a": a, "b": b}), RUNS=runs, **env)
        assert found.returncode == expect, found.stderr
        return found, runs.read_text().split()
    return call


def test_a_difference(job):
    """compare discards the first pair of runs, whose times would hide the difference here."""
    noise = [0.99, 1.01, 1, 1.02, 0.98, 1]
    found, runs = job([9000000, *(100000 * x for x in noise)], [1, *(80000 * x for x in reversed(noise))])
    answer, count, arms, *rows = found.stdout.splitlines()
    sizes = re.fullmatch(r"b takes 20\.0 % less time per step than a \(95 % interval: (\d+\.\d) % to (\d+\.\d) %\)\.", answer)
    assert 17 < float(sizes[1]) < 20 < float(sizes[2]) < 23
    assert count == "Means of 6 runs for each arm:" and arms.split() == ["a", "b", "change"]
    assert [re.split(r" {2,}", row.strip()) for row in rows] == [
        ["time per step", "10.00 ms", "8.00 ms", "-20.0 %"],
        ["copies to the GPU", "4 MiB in 250.00 ms", "4 MiB in 50.00 ms", "-200.00 ms"],
        ["of them staged", "0 %", "100 %"],
        ["stalls", "4.0 in 31.00 ms", "none", "-31.00 ms"],
        ["by faults", "3.0 in 30.00 ms", "none", "-30.00 ms"],
        ["by lock", "1.0 in 1.00 ms", "none", "-1.00 ms"]]
    assert len(runs) == 14 and all(sorted(runs[i:i + 2]) == ["a", "b"] for i in range(0, 14, 2))
    pairs = found.stderr.splitlines()
    assert len(pairs) == 7 and re.fullmatch(r"gpufeed compare: discarded pair: a [\d.]+ s, b [\d.]+ s", pairs[0]), pairs
    assert re.fullmatch(r"gpufeed compare: pair 6 of 6: a [\d.]+ s, b [\d.]+ s", pairs[6]), pairs


def test_no_difference(job):
    times = [1e5, 1.00e5, 1.02e5, 0.98e5, 1.01e5, 0.99e5, 1.03e5]
    found, _ = job(times, [1e5, *times[:0:-1]])
    answer = re.match(r"No difference in time per step larger than (\d\.\d) % between a and b \(95 % interval of b: "
                      r"(-\d\.\d) % to \+(\d\.\d) %\)\.\n", found.stdout)
    assert answer and float(answer[1]) == max(-float(answer[2]), float(answer[3]))


def test_a_run_without_steps_makes_it_the_whole_time(job):
    found, runs = job([1e5] * 9, [1e5] * 8 + [0], "-n", "8")
    assert "Means of 8 runs" in found.stdout and len(runs) == 18
    assert "time per step" not in found.stdout and re.search(r"^  time  ", found.stdout, re.M)


def test_the_order_is_random(job):
    """By chance, all seven pairs have the same order in one of 64 runs. In ten runs in a row, that happens once in
    10^18."""
    for _ in range(10):
        _, runs = job([1e5] * 7, [1e5] * 7, "--pairs=6")
        if len(set(runs[::2])) == 2:
            return
    pytest.fail("all pairs had one order")


@pytest.mark.parametrize("fails", ["a0", "b3"])
def test_a_failed_run_ends_it(job, fails):
    found, runs = job([1e5] * 7, [1e5] * 7, expect=1, FAILS=fails)
    assert found.stdout == ""
    first, *output = [line for line in found.stderr.splitlines() if "pair" not in line]
    assert first == f"gpufeed compare: arm {fails[0]}: the command exited with code 5; its output ends with:"
    assert sorted(output) == ["on standard error", "out of luck"]
    assert runs.count(fails[0]) == int(fails[1]) + 1


def test_commands_that_do_not_run(compare):
    found = compare("--", "no-such-command")
    assert (found.returncode, found.stdout) == (1, "") and "exited with code 127" in found.stderr
    assert "cannot run no-such-command: not found in PATH" in found.stderr
    found = compare("--", "sh", "-c", "kill -SEGV $$")
    assert found.returncode == 1 and "the command was killed by SIGSEGV" in found.stderr
    assert "(it printed nothing)" in found.stderr


def test_ignored_ends_of_children(run):
    """What starts compare may ignore SIGCHLD. The kernel would discard the command's exit code. The command inherits it."""
    ignored = "import signal, sys; sys.exit(5 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 6)"
    found = run("/usr/bin/env", "--ignore-signal=CHLD", COMMAND, "compare", "--", sys.executable, "-c", ignored, preload=False)
    assert found.returncode == 1 and "the command exited with code 5" in found.stderr, found


def test_the_command_ends_with_compare(run, tmp_path):
    """A killed comparison leaves no job behind."""
    pid = tmp_path / "pid"
    with subprocess.Popen([COMMAND, "compare", "--", "sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"],
                          env=run.env(preload=False, TMPDIR=tmp_path), stderr=subprocess.DEVNULL) as process:
        while not pid.exists():
            os.sched_yield()
        child = os.pidfd_open(int(pid.read_text()))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert select.select([child], [], [], 60)[0]
        os.close(child)


@pytest.mark.parametrize("ended, said", [
    (2, "Interrupted after 2 of 6 pairs, so there is no interval.\nMeans of 2 runs for each arm:\n"), (0, "")])
def test_an_interrupt_keeps_the_finished_pairs(run, tmp_path, ended, said):
    """The fifth command waits for the signal, which only compare gets. SIGINT still ends compare."""
    program = tmp_path / "job.sh"
    program.write_text(f"""
        echo >> {tmp_path}/runs
        echo '{{"schema": 2, "state": "ended", "ran_s": 1}}' > "$(echo "$GPUFEED_REPORT" | sed s/%p/$$/)"
        [ $(wc -l < {tmp_path}/runs) -lt {2 * ended + 3} ] || {{ touch {tmp_path}/waits; exec sleep 600; }}
    """)
    (tmp_path / "scratch").mkdir()
    with subprocess.Popen([COMMAND, "compare", "--", "sh", program], env=run.env(preload=False, TMPDIR=tmp_path / "scratch"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "waits").exists():
            assert process.poll() is None
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and out.startswith(said) and bool(out) == bool(said), (out, err)
    assert ended or "interrupted before the end of the first pair that counts" in err
    assert not list((tmp_path / "scratch").iterdir())


def test_default_arms(compare, tmp_path):
    """The arms are the modes observe and on. The caller's variables stay, except for GPUFEED_REPORT, which compare
    sets."""
    program = tmp_path / "show.sh"
    seen = tmp_path / "seen"
    program.write_text(f'echo "$GPUFEED $GPUFEED_STAGE $(dirname "$GPUFEED_REPORT")" >> {seen}\n')
    found = compare("--", "sh", program, GPUFEED="off", GPUFEED_STAGE="off", GPUFEED_REPORT=tmp_path / "own")
    assert found.returncode == 0 and found.stdout.startswith("No run wrote a report: no process used a GPU with the library, ")
    assert found.stdout.count("report") == 1 and " than observe (" not in found.stdout and "\n                        observe " in found.stdout
    rows = sorted(line.split() for line in seen.read_text().splitlines())
    assert [row[:2] for row in rows] == [["observe", "off"]] * 7 + [["on", "off"]] * 7
    assert {os.path.dirname(row[2]) for row in rows} == {str(tmp_path / "scratch")}


def test_a_real_job(compare):
    """Reports of the library itself."""
    feed = [PYTHON, SOURCE / "examples" / "feed.py", "--batches", "4", "--compute-us", "0", "--workers", "1"]
    found = compare("--", *feed, LD_LIBRARY_PATH=SIM_DIR)
    assert found.returncode == 0, found.stderr
    assert "time per step" in found.stdout  # the loop marks its steps
    assert re.search(r"^  copies to the GPU +16 MiB in .* +16 MiB in ", found.stdout, re.M), found.stdout


@pytest.mark.parametrize("words, said", [
    ([], "nothing to compare: gpufeed compare -- COMMAND, or gpufeed compare A.json B.json"),
    (["one.json"], "nothing to compare: gpufeed compare -- COMMAND, or gpufeed compare A.json B.json"),
    (["-n", "5", "--", "true"], "-n 5 is not a number of pairs from 6 to 1000"),
    (["-n6x", "--", "true"], "-n 6x is not a number of pairs from 6 to 1000"),
    (["-n"], "-n needs a value; see `gpufeed help compare`"),
    (["--pairs", "--", "true"], "--pairs needs a value; see `gpufeed help compare`"),
    (["--arm", "a:", "--", "true"], "a is the only arm; a comparison needs two: add another --arm"),
    (["--arm", "a", "--", "true"], "--arm=a is not NAME:VAR=VALUE with a name of at most 31 characters"),
    (["--arm", "a:=1", "--", "true"], "--arm=a:=1 is not NAME:VAR=VALUE with a name of at most 31 characters"),
    (["--arm", "a:", "--arm", "b:", "--arm", "c:", "--", "true"], "c is a third arm; only two arms can be compared"),
    (["--arm", "a:GPUFEED_REPORT=x", "--", "true"], "GPUFEED_REPORT is set by `gpufeed compare` itself"),
    (["--arm", "a:GPUFEED_STAGE=offf", "--", "true"],
     "GPUFEED_STAGE=offf is not valid; allowed: auto, off, files (did you mean off?)"),
    (["-x"], "-x is not a flag; `gpufeed compare --help` lists them"),
])
def test_mistakes(compare, words, said):
    found = compare(*words)
    assert (found.returncode, found.stdout) == (2, "")
    assert len(found.stderr.splitlines()) == 1 and found.stderr == f"gpufeed compare: {said}\n"


# A job that sets the GPU clock of its arm, and ends when compare has read that clock twice.
CLOCKED = """
    import os, time
    size = lambda: os.path.exists(os.environ["FAKE_READS"]) and os.path.getsize(os.environ["FAKE_READS"])
    with open(os.environ["FAKE_CLOCK"] + ".new", "w") as clock:
        clock.write(os.environ["MHZ"])
    os.rename(os.environ["FAKE_CLOCK"] + ".new", os.environ["FAKE_CLOCK"])
    before, end = size(), time.monotonic() + 60
    while size() < before + 2 and time.monotonic() < end:
        time.sleep(0.02)
"""


def clocked(compare, tmp_path, other, **env):
    folder = tmp_path / "nvml"
    folder.mkdir(exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", SOURCE / "tests" / "preload" / "nvml.c"], check=True)
    program = tmp_path / "clocked.py"
    program.write_text(textwrap.dedent(CLOCKED))
    return compare("--arm", "a:MHZ=1900", "--arm", f"b:MHZ={other}", "--", PYTHON, "-IS", program, LD_LIBRARY_PATH=folder,
                   FAKE_CLOCK=tmp_path / "clock", FAKE_READS=tmp_path / "reads", **env)


def test_clocks_and_temperatures_of_both_arms(compare, tmp_path):
    found = clocked(compare, tmp_path, 1710, FAKE_NVML="celsius=71 busy=90 reasons=0x20")
    assert found.returncode == 0
    rows = [re.split(r" {2,}", row.strip()) for row in found.stdout.splitlines()]
    clock, = (row for row in rows if row[0] == "GPU clock")
    # compare may read the clock at the start of the next run, before that run has set its own clock.
    low, high = (float(text.split()[0]) for text in clock[1:3])
    assert 1710 <= high < low <= 1900
    assert float(clock[3].split()[0]) == pytest.approx(100 * (high / low - 1), abs=0.11)  # all three figures are rounded
    assert ["temperature", "71 C", "71 C"] in rows
    assert "In 100 % of the readings of a, heat or the power limit lowered the clock; see `gpufeed doctor`." in found.stdout
    assert ("The GPU clocks differ by more than 2 %" in found.stdout) == (high < 0.98 * low)


def test_clocks_of_gpus_without_work_do_not_count(compare, tmp_path):
    found = clocked(compare, tmp_path, 1900, FAKE_NVML="celsius=40 busy=0", FAKE_INIT="0", GPUFEED="off", MHZ="1")
    assert found.returncode == 0 and "GPU clock" not in found.stdout


def test_reports_cannot_control_the_terminal(compare, tmp_path):
    report = {"schema": 2, "state": "ended", "ran_s": 1.0, "stalls": {"count": 3, "us": 3e6, "causes": {
        "\033[31mred": {"count": 2, "us": 2e6}, "a long name of a cause": {"count": 1, "us": 1e6}}}}
    none = {**report, "stalls": {"count": 0, "us": 0, "causes": {}}}
    files = [tmp_path / name for name in ("\033]0;title\a.json", "b.json")]
    for file, content in zip(files, (report, none)):
        file.write_text(json.dumps(content))
    found = compare(*files)
    assert found.returncode == 0 and "?[31mred" in found.stdout and "?]0;title?.json" in found.stdout, found
    assert all(line.isprintable() for line in found.stdout.splitlines())


def test_two_reports(compare, tmp_path):
    def write(name, steps, seconds):
        way = {"calls": 1, "bytes": 8 << 20, "duration_s": seconds}
        path = tmp_path / name
        path.write_text(json.dumps({"schema": 2, "state": "running", "ran_s": 3.5, "steps": steps,
                                    "transfers": {"from_device": {"driver": way}}, "stalls": {}}))
        return path
    one, other = write("one.json", None, 0.5), write("other.json", {"ended": 5, "us": 1000, "current": 1}, 0.125)
    found = compare(one, other)
    assert found.returncode == 0 and found.stderr == ""
    assert [re.split(r" {2,}", row.strip()) for row in found.stdout.splitlines()] == [
        ["one.json", "other.json", "change"],
        ["time", "3.50 s", "3.50 s", "+0.0 %"],
        ["copies from the GPU", "8 MiB in 500.00 ms", "8 MiB in 125.00 ms", "-375.00 ms"],
        ["Each report is from one run, so there is no interval."]]
    assert "time per step" in compare(other, other).stdout
    for path, pinned, empty in ((one, 2, 3.0), (other, 6, 0.5)):
        content = json.loads(path.read_text())
        content["transfers"]["from_device"]["pinned"] = {"calls": 1, "bytes": pinned << 20, "duration_s": 0}
        content["gpu_time"] = {"devices": [{"states": {"empty": {"s": empty}, "queued": {"s": 4 - empty}}}]}
        path.write_text(json.dumps(content))
    told = [re.split(r" {2,}", row.strip()) for row in compare(one, other).stdout.splitlines()]
    assert ["GPU without work", "75.0 %", "12.5 %", "-62.5 points"] in told and ["of them pinned", "20 %", "43 %"] in told
    for path, p99, waits in ((one, 9.0, 0.5), (other, 9.0, None), (other, 4.5, 0)):
        assert "waiting for data" not in compare(one, other).stdout  # unknown
        content = json.loads(path.read_text()) | {"steps": {"ended": 5, "us": 1000, "current": 1},
                                                  "step_times": {"steps": 4, "p99_ms": p99, "data_wait_ms": waits}}
        path.write_text(json.dumps(content))
    told = [re.split(r" {2,}", row.strip()) for row in compare(one, other).stdout.splitlines()]
    assert told[2:4] == [["99th percentile", "9.00 ms", "4.50 ms", "-50.0 %"], ["waiting for data", "500 us", "none", "-500 us"]], told
    for wrong, said in ((SOURCE / "README.md", f"{SOURCE}/README.md is not a report (GPUFEED_REPORT)"),
                        (tmp_path / "none", f"cannot read {tmp_path}/none: No such file or directory"),
                        (tmp_path, f"cannot read {tmp_path}: Is a directory")):
        found = compare(one, wrong)
        assert (found.returncode, found.stdout, found.stderr) == (1, "", f"gpufeed compare: {said}\n")


def write_runs(folder, step_us, processes=1, **idle):
    """Writes a report of each run, or of each of its processes. `idle` is what each says about the time of its GPU without work."""
    folder.mkdir()
    (folder / "notes.txt").write_text("no report")
    for number, us in enumerate(step_us):
        place = folder / f"run{number}" if processes > 1 else folder
        place.mkdir(exist_ok=True)
        for process in range(processes):
            (place / f"{number}-{process}.json").write_text(json.dumps(
                {"schema": 2, "state": "ended", "ran_s": 2.0, "steps": us and {"ended": 10, "us": 10 * us, "current": None}, "transfers": None,
                 "stalls": {"count": 1, "us": 1000 * processes, "causes": {"lock": {"count": 1, "us": 1000}}},
                 "gpu_time": {"devices": [{"states": {"empty": {"s": 1.0}, "queued": {"s": 3.0}}, **idle}]}}))
    return folder


def test_folders_of_runs(compare, tmp_path):
    """The sides are not paired, and may have different numbers of runs."""
    base = write_runs(tmp_path / "base", [1000, 1010, 990, 1005, 995, 1000])
    slow = write_runs(tmp_path / "slow", [1100, 1110, 1090, 1105, 1095, 1100, 1100], processes=2)
    found = compare(f"{base}/", slow)
    assert found.returncode == 0 and found.stderr == ""
    assert re.match(r"slow takes 10\.0 % more time per step than base \(95 % interval: [89]\.\d % to 1[01]\.\d %\)\.\n"
                    r"Means of 6 and 7 runs:\n", found.stdout), found.stdout
    assert re.search(r"^  time per step +1\.00 ms +1\.10 ms +\+10\.0 %$", found.stdout, re.M)
    told = json.loads(compare(base, slow, "--json").stdout)
    assert (told["schema"], told["time"], told["before"]["runs"], told["after"]["runs"]) == (1, "step", 6, 7)
    assert told["low"] < told["change"] < told["high"] and abs(told["change"] - 0.1) < 1e-9
    assert told["before"]["step_p99_s"] is None and told["before"]["gpu_idle"] == 0.25 and told["after"]["stalls_s"] == {"lock": 0.002}
    assert abs(told["before"]["mean_s"] - 0.001) < 1e-9
    assert told["grew"]["stalls"] == [{"cause": "lock", "s": pytest.approx(0.001)}] and told["grew"]["gpu_idle"] == []


def idle(number, **seconds):
    """Each cause has most of its time in a line with this number."""
    return {"samples": 99, "causes": {cause: {"s": s} for cause, s in seconds.items()}, "lines": [
        {"cause": cause, "file": "/home/train.py", "line": number, "function": "step", "s": s} for cause, s in seconds.items()]}


def test_what_grew_by_cause_and_line(compare, tmp_path):
    """Means of a run, the largest change first, each with the line of the side that took more."""
    base = write_runs(tmp_path / "base", [1000] * 6, **idle(4, data=0.5, sleep=0.25, gc=0.125, lock=0.1))
    slow = write_runs(tmp_path / "slow", [1000] * 7, processes=2, **idle(9, gc=0.5, data=0.125, fault=0.0625, lock=0.05))
    rows = [re.split(r" {2,}", row.strip()) for row in compare(base, slow).stdout.splitlines()]
    at = rows.index(["GPU without work", "25.0 %", "25.0 %", "+0.0 points"]) + 1
    assert rows[at] == ["in a mean step", "250 us", "250 us", "+0 us"]
    assert rows[at + 1:at + 8] == [
        ["by gc", "125.00 ms", "1.00 s", "+875.00 ms"], ["at train.py:9 in step"],
        ["by data", "500.00 ms", "250.00 ms", "-250.00 ms"], ["at train.py:4 in step"],
        ["by sleep", "250.00 ms", "none", "-250.00 ms"], ["at train.py:4 in step"],
        ["stalls", "1.0 in 1.00 ms", "2.0 in 4.00 ms", "+3.00 ms"]]
    told = json.loads(compare(base, slow, "--json").stdout)
    assert told["grew"]["gpu_idle"] == [{"cause": "gc", "line": "train.py:9 in step", "s": 0.875},
                                        {"cause": "fault", "line": "train.py:9 in step", "s": 0.125}]
    assert told["before"]["gpu_idle_s"] == {"data": 0.5, "sleep": 0.25, "gc": 0.125, "lock": pytest.approx(0.1)}


@pytest.mark.parametrize("limit, code", [("5%", 3), ("8", 3), ("11.5", 0), ("12%", 0), ("0", 3)])
def test_a_limit_for_ci(compare, tmp_path, limit, code):
    """The lower end of the interval decides, so noise does not fail a build. A faster run never does."""
    base = write_runs(tmp_path / "base", [1000, 1010, 990, 1005, 995, 1000])
    slow = write_runs(tmp_path / "slow", [1100, 1110, 1090, 1105, 1095, 1100])
    assert compare(base, slow, "--fail-above", limit).returncode == code
    assert compare(slow, base, "--fail-above", limit).returncode == 0
    assert compare(base, base, "--fail-above", limit).returncode == 0


def test_a_limit_for_arms(job):
    slow = [[us * factor for us in [0] + [10000, 10100, 9900, 10050, 9950, 10000]] for factor in (1, 1.5)]
    job(*slow, "--fail-above=20%", expect=3)
    found, _ = job(*slow, "--json", "--fail-above=60%")
    assert abs(json.loads(found.stdout)["change"] - 0.5) < 1e-9


def test_folders_that_cannot_be_compared(compare, tmp_path):
    base, few = write_runs(tmp_path / "base", [1000] * 6), write_runs(tmp_path / "few", [1000] * 5)
    for words, code, said in (
            ([base, few, "--json"], 1, f"{few} has reports of 5 runs; a comparison needs at least 6"),
            ([base, base / "0-0.json"], 1, f"cannot read {base}/0-0.json: Not a directory"),
            ([base, base, "--fail-above=much"], 2, "--fail-above=much is not a percentage from 0 to 1000"),
            ([base / "0-0.json", base / "1-0.json", "--json"], 2,
             "two reports have no interval; --json and --fail-above need a COMMAND or folders of reports")):
        found = compare(*words)
        assert (found.returncode, found.stdout, found.stderr) == (code, "", f"gpufeed compare: {said}\n")
    (base / "0-0.json").write_text("{}")
    assert compare(base, base).stderr == f"gpufeed compare: {base}/0-0.json is not a report (GPUFEED_REPORT)\n"
    whole = [write_runs(tmp_path / name, [None] * 6) for name in "ab"]
    assert "in time larger than 0.0 %" in compare(*whole).stdout


@pytest.mark.parametrize("change, said", [({"ran_s": 0}, "took no time"), ({"ran_s": 1e-308}, "took no time"),
                                          ({"steps": {"ended": 1, "us": 1e-300}}, None),
                                          ({"steps": {"ended": 5e-324, "us": 1e17}, "gpu_time": {"devices": [{"states": {"empty": {"s": 1}}}]}}, None)])
def test_reports_without_a_time(compare, tmp_path, change, said):
    """The ratio of the times, or the time of a step, would be infinite, which JSON cannot express."""
    base, other = write_runs(tmp_path / "base", [None] * 6), write_runs(tmp_path / "other", [1000] * 6)
    for path in base.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    for words in ([base, other], [other, base], [base, base]):
        found = compare(*words, "--json")
        assert said and (found.returncode, found.stdout) == (1, "") and said in found.stderr or json.loads(found.stdout)["time"] == "run", found
        assert not re.search(r"\binf\b", compare(*words).stdout)
