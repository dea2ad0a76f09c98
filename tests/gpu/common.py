# SPDX-License-Identifier: Apache-2.0
"""Shared by the stages on a GPU machine: the library's path, runs with and without the library,
checks."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback

from watch import Watch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(os.environ.get("OUT", SOURCE / "gpu-out"))
PROGRAMS = pathlib.Path(__file__).parent / "programs"
BUDGET = float(os.environ.get("GF_STAGE_SECONDS", "450"))
DRY = os.environ.get("GF_DRY") == "1"  # without a GPU: small programs on the simulated driver
STARTED = time.monotonic()
LOSS = re.compile(r"-?0x[01]\.[0-9a-f]+p[-+]\d+")


def find(name):
    """Returns the path of a built object, from the bundle or else from the build folder."""
    build = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
    folders = [pathlib.Path(os.environ["GF_BUNDLE"])] if "GF_BUNDLE" in os.environ else []
    folders += [build / "bundle" / "gpufeed", build / "src"]
    for folder in folders:
        found = sorted(path for path in folder.rglob(name) if path.is_file())
        if found:
            return found[0]
    return None


PRELOAD = find("libgpufeed.so")
COMMAND = find("gpufeed")


class Checks:
    """Prints one line for each check; device.sh makes its table from them."""

    def __init__(self, stage):
        self.stage, self.failed = stage, 0

    def __call__(self, good, name, detail=""):
        self.failed += not good
        print(f"CHECK {'PASS' if good else 'FAIL'} {self.stage}: {name}{': ' + detail if detail else ''}",
              flush=True)
        return good

    def skip(self, name, why):
        print(f"CHECK SKIP {self.stage}: {name}: {why}", flush=True)

    def end(self):
        print("END", flush=True)  # tells device.sh that the stage is complete
        sys.exit(1 if self.failed else 0)


def guarded(check, part, *arguments):
    """Runs one part of a stage. An error in the part counts as one failure, and the next part still runs."""
    try:
        return part(*arguments)
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001
        text = traceback.format_exc()
        print(text, flush=True)
        name = getattr(part, "__name__", None) or part.func.__name__
        check(False, f"{name}: ran to its end", text.strip().splitlines()[-1][:300])
        return None


class Run:
    """A finished run: exit code, text output, {pid: report}, the Watch."""

    def __init__(self, pid, code, out, err, reports, watch, seconds):
        self.code, self.out, self.err, self.reports = code, out, err, reports
        self.report = reports.get(pid)
        self.watch, self.seconds = watch, seconds

    @property
    def losses(self):
        return LOSS.findall(self.out)

    @property
    def verdict(self):
        """Returns the line that reports the placement, or ""."""
        for line in self.err.splitlines():
            if line.startswith("gpufeed: ") and "GPU" in line:
                return line
        return ""

    def events(self, kind):
        return [e for report in self.reports.values() for e in report["events"] if e["event"] == kind]


def time_left():
    return BUDGET - (time.monotonic() - STARTED)


def run(name, command, library=True, limit=150, watch=False, **env):
    """Runs the command to its end or its limit, with all output in OUT/name.log. Keywords are added
    to the environment."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob(f"{name}.report.*.json"):
        old.unlink()
    full = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED") and k != "LD_PRELOAD"}
    full["PYTHONUNBUFFERED"] = "1"
    if DRY:
        full["LD_LIBRARY_PATH"] = str(find_sim())
    if library:
        full.update(LD_PRELOAD=str(PRELOAD), GPUFEED_VERBOSE="1",
                    GPUFEED_REPORT=str(OUT / f"{name}.report.%p.json"))
    full.update({k: str(v) for k, v in env.items()})
    limit = max(5.0, min(limit, time_left()))
    start = time.monotonic()
    with open(OUT / f"{name}.out", "w+b") as out, open(OUT / f"{name}.err", "w+b") as err:
        child = subprocess.Popen([str(c) for c in command], env=full, cwd=SOURCE, stdout=out, stderr=err,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        # device.sh terminates a stage that exceeds its time. The stage then kills its processes.
        signal.signal(signal.SIGTERM, lambda *_: (os.killpg(child.pid, 9), os._exit(1)))
        watcher = Watch(child.pid) if watch else None
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            code = "timeout"
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if watcher:
            watcher.stop()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    took = time.monotonic() - start
    reports = {int(path.name.split(".")[-2]): json.loads(path.read_text())
               for path in sorted(OUT.glob(f"{name}.report.*.json"))}
    with open(OUT / f"{name}.log", "w", encoding="utf-8") as log:
        log.write(f"$ {' '.join(str(c) for c in command)}\n"
                  f"[library {library}, {took:.1f} s, exit {code}]\n"
                  f"{texts[0]}\n--- stderr\n{texts[1]}\n")
        if watcher:
            log.write(f"--- threads\n{watcher.table()}\n")
    for suffix in ("out", "err"):
        (OUT / f"{name}.{suffix}").unlink()
    print(f"# {name}: library {library}, exit {code}, {took:.1f} s", flush=True)
    return Run(child.pid, code, texts[0], texts[1], reports, watcher, took)


def find_sim():
    found = find_any("libcuda.so.1")
    if found is None:
        sys.exit("GF_DRY=1 needs the simulated driver: meson compile -C build")
    return found.parent


def find_any(name):
    """Returns the path of a test program, next to the bundle or else in the build folder."""
    build = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
    folders = (build / "bundle" / "bench", build / "tests")
    return next((path for folder in folders for path in folder.rglob(name) if path.is_file()), None)


def train(method, steps=12):
    """Returns the command of a training run whose workers use this start method."""
    if DRY:
        return ["/usr/bin/python3", SOURCE / "tests" / "compat" / "torch_program.py", method, "cuda"]
    return ["python3", SOURCE / "examples" / "train.py", "--start-method", method, "--steps", str(steps),
            "--deterministic"]


def pair(check, name, command, limit, **extra):
    """Compares a run without the library with a run under the library in this environment. Returns
    the latter."""
    bare = run(name + "-bare", command, library=False, limit=limit)
    ours = run(name, command, limit=limit, watch=True, **extra)
    if bare.code == ours.code == 0 and bare.losses != ours.losses:
        again = run(name + "-bare-again", command, library=False, limit=limit)
        if again.code == 0 and again.losses != bare.losses:
            check.skip(f"{name}: losses", "they differ between two runs without the library")
            return ours
    same_losses(check, name, bare, ours)
    return ours


def same_losses(check, name, bare, ours):
    """Checks that both exit codes are 0 and all losses are bitwise equal."""
    for which, done in (("without", bare), ("with", ours)):
        if done.code != 0:
            print(f"# {name} {which}: {done.err[-1500:]}")
    check(bare.code == 0 and ours.code == 0, f"{name}: exit code 0", f"{bare.code}, {ours.code}")
    check(len(bare.losses) > 0 and bare.losses == ours.losses, f"{name}: losses equal to the bit",
          f"{len(bare.losses)} without, {len(ours.losses)} with")


def said(check, name, ours, wanted, most=9):
    """Checks that one verdict line contains these words, and that few other lines are printed."""
    lines = [line for line in ours.err.splitlines() if line.startswith("gpufeed: ")]
    check(wanted in ours.verdict, f"{name}: the verdict line says `{wanted}`", ours.verdict[:250])
    check(1 <= len(lines) <= most, f"{name}: says little", f"{len(lines)} lines")


def placed(check, name, ours, cpus, pid=None):
    """Checks that, after the first thread was bound, the Watch saw all threads of the program on these CPUs."""
    report = ours.reports.get(pid) if pid else ours.report
    pids = {pid} if pid else None
    verdict = ((report or {}).get("verdict") or {}).get("cpus")
    check(verdict == cpus, f"{name}: the report's verdict is CPUs {cpus}", str(verdict))
    since = ours.watch.when(cpus, pid)
    if not check(since is not None, f"{name}: threads seen on CPUs {cpus}"):
        return
    stray = ours.watch.elsewhere(cpus, since, pids=pids)
    count = len([key for key in ours.watch.seen if pids is None or key[0] in pids])
    check(not stray, f"{name}: every thread of the program is there",
          f"{count} threads, stray {stray[:4]}")


def quiet(check, name, ours):
    check(bool(ours.reports) and not ours.events("widened"), f"{name}: the guard stays quiet",
          "" if ours.reports else "no report")
