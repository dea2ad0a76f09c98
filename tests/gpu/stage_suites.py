# SPDX-License-Identifier: Apache-2.0
"""Stage suites: PyTorch's and CuPy's own tests of copies, streams, events, graphs, pinned memory
and processes. Each test has the same outcome with and without the library.

torch_tests.txt lists the tests; fetch_suites.sh puts them into .suites. Tests that need most of the
GPU run alone, after the others. GF_GPUS=2: the tests that need two GPUs; GF_ONLY=WORD,...: tests
whose names contain one of these words. A test that differs runs again alone, three times with and three times without
the library. It fails if no outcome occurs in both."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from common import DRY, OUT, SOURCE, Checks, guarded, time_left
from same import PYTHON, environment

check = Checks("suites")
HERE = pathlib.Path(__file__).parent
SUITES = pathlib.Path(os.environ.get("GF_SUITES", SOURCE / ".suites"))
GPUS = os.environ.get("GF_GPUS", "1")
AGAIN_AT_MOST = 12
# A test's name, with its parameters in brackets. Output of a process of the test may follow on the same line.
NAME = r"([^\s\[]+::[^\s\[]+(?:\[.*?\])?)"
RESULT = re.compile(rf"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) {NAME}(?: .*)?$"
                    rf"|^{NAME}(?: .*)? (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)")
_running, _lock = set(), threading.Lock()


def stop(*_):
    for pid in list(_running):
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    os._exit(1)


signal.signal(signal.SIGTERM, stop)


class Job:
    """A line of the list: some tests of one file in one environment."""

    def __init__(self, suite, file, words, variables, omitted, alone=False):
        self.suite, self.file, self.alone = suite, file, alone
        self.env = dict(pair.split("=", 1) for pair in [variables] if pair)
        parts = [f"({words})"] if words else []
        parts += [f"not ({one})" for one in omitted]
        self.words = " and ".join(parts)
        self.name = " ".join(filter(None, [suite, file.rpartition("/")[2], variables.partition("=")[2], "alone" * alone]))


def jobs():
    rows = [[part.strip() for part in line.split("|")]
            for line in (HERE / "torch_tests.txt").read_text().splitlines() if line and line[0] != "#"]
    omitted = {}
    for row in rows:
        if row[0] in ("omit", "alone") and row[3]:
            omitted.setdefault((row[1], row[2]), []).append(row[3])
    return [Job(row[1], row[2], row[3], row[5], [] if row[0] == "alone" else omitted.get((row[1], row[2]), []),
                row[0] == "alone")
            for row in rows if row[0] in ("run", "alone") and row[4] == GPUS and (SUITES / row[1] / row[2]).exists()]


def pytest(job, library, ids, workers, limit, log):
    """Runs tests. Returns {test: outcome} of those that ended in time, and whether the run is complete."""
    command = [PYTHON, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--timeout", "60", "--tb", "line"]
    if workers > 1:
        command += ["-n", str(workers)]
    command += ids or [job.file]
    if job.words and not ids:
        command += ["-k", job.words]
    with open(OUT / log, "a+b") as file:
        begin = file.seek(0, os.SEEK_END)
        env = environment(library, {**job.env, "GPUFEED_VERBOSE": 0})
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SUITES / "python"), env.get("PYTHONPATH")]))
        child = subprocess.Popen(command, env=env, cwd=SUITES / job.suite,
                                 stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        with _lock:
            _running.add(child.pid)
        try:
            code = child.wait(max(5, min(limit, time_left() - 5)))
        except subprocess.TimeoutExpired:
            code = "timeout"
        try:
            os.killpg(child.pid, signal.SIGKILL)  # also the processes that the tests left running
        except OSError:
            pass
        child.wait()
        with _lock:
            _running.discard(child.pid)
        file.seek(begin)
        text = file.read().decode(errors="replace")
    found = {}
    for line in text.splitlines():
        match = RESULT.search(line)
        if match:
            outcome, test = (match[1], match[2]) if match[1] else (match[4], match[3])
            found[test.strip()] = "FAILED" if outcome == "ERROR" else outcome
    return found, code


def log_name(job, library):
    return re.sub(r"[^\w.-]+", "_", job.name) + ("" if library else "-bare") + ".log"


def both(job, limit, workers):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pair = [pool.submit(pytest, job, library, None, workers, limit, log_name(job, library))
                for library in (False, True)]
        return [one.result() for one in pair]


def again(job, test):
    """Repeats one test alone, until an outcome occurs in both ways. Returns its outcomes: ({without}, {with})."""
    seen = set(), set()
    for _ in range(3):
        for library in (False, True):
            found, code = pytest(job, library, [test], 1, 60, log_name(job, library))
            seen[library].update(found.values() or {f"exit {code}"})
        if seen[0] & seen[1]:
            break
        if time_left() < 15:
            break
    return seen


def compare(job, results):
    (bare, bare_code), (ours, ours_code) = results
    shared = bare.keys() & ours.keys()
    differ = sorted(test for test in shared if bare[test] != ours[test])
    if bare_code != "timeout" and ours_code != "timeout":
        differ += sorted(bare.keys() ^ ours.keys())
    wrong, unsteady, open_ones = [], [], []
    for index, test in enumerate(differ):
        if index >= AGAIN_AT_MOST or time_left() < 45:
            open_ones.append(f"{test.rpartition('::')[2]} ({bare.get(test)} | {ours.get(test)})")
            continue
        without, with_ours = again(job, test)
        (unsteady if without & with_ours else wrong).append(
            f"{test.rpartition('::')[2]} ({'/'.join(sorted(without))} | {'/'.join(sorted(with_ours))})")
    if open_ones:
        check.skip(f"{job.name}: {len(open_ones)} that differ", f"no time to ask again: {', '.join(open_ones[:12])}")
    counts = {outcome: sum(bare[test] == outcome for test in shared) for outcome in sorted(set(bare.values()))}
    detail = f"{len(shared)} tests, {counts}"
    if unsteady:
        detail += f"; unsteady: {', '.join(unsteady)}"
    if not shared:
        check.skip(job.name, f"nothing ran: exit {bare_code} without, {ours_code} with; see the logs")
        return
    check(not wrong, f"{job.name}: the same outcomes", detail + ("; DIFFER: " + ", ".join(wrong) if wrong else ""))
    for code, which, found in ((bare_code, "without", bare), (ours_code, "with", ours)):
        if code == "timeout":
            check.skip(f"{job.name}: to its end", f"{which} the library it was stopped after {len(found)} tests")


def main():
    if not SUITES.is_dir():
        check.skip("all", "no .suites: tests/gpu/fetch_suites.sh")
        check.end()
    OUT.mkdir(parents=True, exist_ok=True)
    version = SUITES / "torch" / "version.txt"
    print(f"# PyTorch's tests are those of {version.read_text().strip() if version.exists() else '?'}")
    only = [word for word in os.environ.get("GF_ONLY", "").split(",") if word]
    work = [job for job in jobs() if not only or any(word in job.name for word in only)]
    print(f"# {len(work)} jobs: {', '.join(job.name for job in work)}", flush=True)
    weights = {"test_cuda.py": 5, "test_dataloader.py": 4, "test_multiprocessing.py": 2, "test_torch.py": 2,
               "test_memory.py": 2}
    cpus = os.cpu_count() or 2
    # Two jobs run at a time, each with and without the library, on all CPUs. The longest jobs are first.
    work.sort(key=lambda job: -weights.get(job.file.rpartition("/")[2], 1) + bool(job.env) * 2)
    workers = 1 if DRY else max(1, cpus // 4)
    limit = max(20, time_left() * 0.75)
    until = time.monotonic() + limit
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [(job, pool.submit(lambda one: both(one, until - time.monotonic(), workers), job))
                   for job in work if not job.alone]
        results = [(job, one.result()) for job, one in waiting]
    results += [(job, [pytest(job, library, None, 1, 60, log_name(job, library)) for library in (False, True)])
                for job in work if job.alone]
    for job, result in results:
        guarded(check, compare, job, result)
    check.end()


if __name__ == "__main__":
    sys.exit(main())
