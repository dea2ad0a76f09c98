# SPDX-License-Identifier: Apache-2.0
"""Stage reading: the wheel, and the commands that show a job, beside PyTorch's profiler.

The wheel (GF_WHEEL) is installed into a virtual environment, used, and uninstalled.
"""

import gzip
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from common import DRY, OUT, PROGRAMS, SOURCE, Checks, find_sim, guarded

check = Checks("reading")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gpufeed-reading-"))
VENV = WORK / "venv"
GPUFEED = VENV / "bin" / "gpufeed"
PYTHON = VENV / "bin" / "python"
WHEEL = os.environ.get("GF_WHEEL", "")
TORCH = ""  # the folder of PyTorch, if the virtual environment does not see it
NEAR_US = 1000  # most distance between a mark of gpufeed and the profiler's mark for the same step


def environment(**extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED") and k not in ("LD_PRELOAD", "PYTHONPATH")}
    if DRY:
        env["LD_LIBRARY_PATH"] = str(find_sim())
        env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # the folder of a substitute for PyTorch
    elif TORCH:
        env["PYTHONPATH"] = TORCH
    env.update(extra)
    return env


def text(name, *command, limit=60, **extra):
    """Runs a command, keeps its output in OUT, and returns exit code, output and errors."""
    start = time.monotonic()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=limit,
                              env=environment(**extra), cwd=SOURCE, stdin=subprocess.DEVNULL)
        code, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, out, errors = "timeout", str(error.stdout), str(error.stderr)
    (OUT / f"{name}.txt").write_text(f"$ {' '.join(map(str, command))}\n[exit {code}]\n{out}\n--- stderr\n{errors}", encoding="utf-8")
    print(f"# {name}: exit {code}, {time.monotonic() - start:.1f} s", flush=True)
    return code, out, errors


def files():
    """Returns all files of the environment except Python's byte code."""
    return {str(path.relative_to(VENV)) for path in VENV.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def install():
    """Installs the wheel. Returns the environment's files before, or None if that failed."""
    code, _, errors = text("venv", sys.executable, "-m", "venv", "--system-site-packages", VENV)
    if code != 0:
        # Without ensurepip, the system's pip installs the wheel.
        code, _, errors = text("venv2", sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", VENV)
    check(code == 0, "a virtual environment", errors[-200:])
    before = files()
    code, _, errors = text("install", PYTHON, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", WHEEL)
    check(code == 0, "pip install --no-index WHEEL", errors[-300:])
    print(f"# the wheel has {os.path.getsize(WHEEL)} bytes, installed {len(files() - before)} files")
    return before


def find_torch():
    """Finds PyTorch's folder if the environment's Python does not see it, because this Python may itself be in a
    virtual environment."""
    global TORCH
    if DRY or text("torch", PYTHON, "-c", "import torch")[0] == 0:
        return
    found = importlib.util.find_spec("torch")
    TORCH = str(pathlib.Path(found.origin).parents[1]) if found else ""
    check(found is not None, "PyTorch is there", TORCH)


def uninstall(before):
    code, _, errors = text("uninstall", PYTHON, "-m", "pip", "uninstall", "-y", "--disable-pip-version-check", "gpufeed")
    check(code == 0, "pip uninstall", errors[-300:])
    left = sorted(files() ^ before)
    check(not left, "uninstall leaves nothing", str(left[:5]))
    code, out, errors = text("stale", PYTHON, "-c", "print(1)", LD_PRELOAD=str(VENV / "gone" / "libgpufeed.so"))
    check(code == 0 and out == "1\n" and "cannot be preloaded" in errors, "a stale LD_PRELOAD is a line of the loader", errors[:200])


def quickstart():
    """Makes the two runs of examples/quickstart.sh with the installed wheel."""
    for mode in ("observe", "on"):
        job = [PYTHON, SOURCE / "examples" / "train.py", "--steps", "25", "--workers", "4", "--pageable"]
        if DRY:
            job = [PYTHON, SOURCE / "examples" / "feed.py", "--batch-mib", "8"]
        code, out, errors = text(f"quickstart-{mode}", GPUFEED, "run", "--verbose=0", f"--report={OUT / mode}.json", "--", *job,
                                 GPUFEED=mode)
        check(code == 0 and errors == "", f"quick start, {mode}", (out.splitlines() or [""])[-1] + errors[-200:])
    code, out, errors = text("quickstart-compare", GPUFEED, "compare", OUT / "observe.json", OUT / "on.json")
    check(code == 0, "gpufeed compare of both", errors[-200:])
    print(out)


def look_at(pid):
    """Runs the commands that show a running process."""
    for name, command in (("top", [GPUFEED, "top", "-n", "1", pid]), ("stacks", [GPUFEED, "stacks", pid])):
        code, out, errors = text(name, *command)
        check(code == 0 and out.count("\n") >= 2, f"gpufeed {name}", errors[-300:])
        print(out[:1800])
    code, out, errors = text("doctor", GPUFEED, "doctor")
    check(code in (0, 1), "gpufeed doctor", f"exit {code} {errors[-300:]}")
    print(out[:3000])
    code, out, errors = text("doctor-json", GPUFEED, "doctor", "--json")
    check(code in (0, 1) and isinstance(json.loads(out), dict), "gpufeed doctor --json", errors[-300:])
    if code in (0, 1):
        (OUT / "doctor.json").write_text(out, encoding="utf-8")


def traced():
    """Runs the job under the profiler. While it trains, runs the commands on it."""
    trace, ready, go = OUT / "torch.json", WORK / "ready", WORK / "go"
    (OUT / "job.log").unlink(missing_ok=True)
    command = [GPUFEED, "run", "--live=on", "--stall-us=500", f"--log={OUT / 'job.log'}", f"--report={OUT / 'job.json'}", "--",
               PYTHON, PROGRAMS / "traced.py", trace, ready, go]
    with open(OUT / "traced.txt", "w", encoding="utf-8") as output:
        job = subprocess.Popen([str(c) for c in command], env=environment(), cwd=SOURCE, stdout=output, stderr=output)
        end = time.monotonic() + 45
        while not ready.exists() and job.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if check(ready.exists(), "the job trains under the profiler", (OUT / "traced.txt").read_text(encoding="utf-8")[-500:]):
            time.sleep(2.5)  # the live report is renewed each second
            guarded(check, look_at, str(job.pid))
        go.touch()
        try:
            code = job.wait(30)
        except subprocess.TimeoutExpired:
            job.kill()
            code = "timeout"
    check(code == 0, "the job ends", f"exit {code}")
    print((OUT / "traced.txt").read_text(encoding="utf-8"))
    return trace


def merged(trace):
    """Merges both traces into one file, and checks that both marks of each step are within 1 ms."""
    target = OUT / "merged.json"
    code, out, errors = text("perfetto", GPUFEED, "report", OUT / "job.log", OUT / "job.json", "--perfetto", target, "--with", trace)
    if not check(code == 0, "gpufeed report --perfetto --with", errors[-300:]):
        return
    events = json.loads(target.read_text(encoding="utf-8"))["traceEvents"]
    marks = {one["name"]: one["ts"] for one in events if one.get("cat") == "gpufeed_step"}
    theirs = {one["name"]: one["ts"] for one in events
              if one.get("cat") == "user_annotation" and one.get("name", "").startswith("step ") and one.get("ph") == "X"}
    apart = {name: theirs[name] - marks[name] for name in theirs if name in marks}
    print("# record_function after gpufeed_step, us:", {name: round(us, 1) for name, us in sorted(apart.items())})
    check(len(apart) >= 8 and all(abs(us) < NEAR_US for us in apart.values()), "marks at the same place are within 1 ms",
          f"{len(apart)} of {len(theirs)} marks, at most {max(map(abs, apart.values()), default=None)} us")
    loads = [(one["ts"], one["ts"] + one["dur"]) for one in events if one.get("cat") == "user_annotation" and one.get("name") == "load"]
    first, last = min(theirs.values(), default=0), max(theirs.values(), default=0)
    stalls = [one for one in events if one.get("ph") == "X" and "site" in (one.get("args") or {}) and first <= one["ts"] <= last]
    inside = sum(any(a - NEAR_US <= one["ts"] <= b + NEAR_US for a, b in loads) for one in stalls)
    print(f"# {len(events)} events; {len(stalls)} stalls while the profiler ran, {inside} of them in `load`")
    with gzip.open(OUT / "torch.json.gz", "wb") as packed:
        packed.write(trace.read_bytes())
    os.unlink(target)
    os.unlink(trace)


def shown():
    for name, flags in (("report", []), ("report-html", [f"--html={OUT / 'job.html'}"]), ("report-prometheus", ["--prometheus=-"])):
        code, out, errors = text(name, GPUFEED, "report", OUT / "job.log", OUT / "job.json", *flags)
        check(code == 0, f"gpufeed {name.replace('-', ' --')}", errors[-200:])
        if not flags:
            print(out[:2500])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    before = guarded(check, install)
    guarded(check, find_torch)
    trace = guarded(check, traced)
    if trace:
        guarded(check, merged, trace)
        guarded(check, shown)
    guarded(check, quickstart)
    if before:
        guarded(check, uninstall, before)
    shutil.rmtree(WORK, ignore_errors=True)
    check.end()


main()
