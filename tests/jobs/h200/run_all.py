# SPDX-License-Identifier: Apache-2.0
"""run_all.py FOLDER [N] [--only k01,k02] [--jobs FOLDER] [--seed S] [--limit SECONDS]

Runs the jobs k01..k18 beside this file (--jobs: those of another folder), N at a time (default 4), in shuffled order.
Standard output and standard error of each go to FOLDER/kNN.txt. PRELOAD_CMD (a command
line such as "/path/gpufeed run --") is put before "python3 kNN.py"; PYTHON names another
interpreter. A job past the limit (70 s) is ended with its process group.
"""
import argparse
import glob
import os
import random
import shlex
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
say = threading.Lock()


def end_group(pid, sig):
    try:
        os.killpg(pid, sig)
    except (ProcessLookupError, PermissionError):
        pass


def run(name, folder, limit, jobs):
    wrapper = os.path.join(jobs, name + ".sh")
    if os.path.exists(wrapper):  # the wrapper itself puts PRELOAD_CMD before its python3
        command = ["bash", wrapper]
    else:
        command = shlex.split(os.environ.get("PRELOAD_CMD", "")) + \
            [os.environ.get("PYTHON", "python3"), name + ".py"]
    begin, note = time.monotonic(), ""
    with open(os.path.join(folder, name + ".txt"), "ab", buffering=0) as out:
        out.truncate(0)
        proc = subprocess.Popen(command, cwd=jobs, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = proc.wait(limit)
        except subprocess.TimeoutExpired:
            note = "  over the limit, ended"
            end_group(proc.pid, signal.SIGTERM)
            try:
                code = proc.wait(4)
            except subprocess.TimeoutExpired:
                end_group(proc.pid, signal.SIGKILL)
                code = proc.wait()
    seconds = time.monotonic() - begin
    end_group(proc.pid, signal.SIGKILL)  # what the job left behind in its group
    with say:
        print(f"{name} exit {code} {seconds:.1f} s{note}", flush=True)
    return code


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("n", nargs="?", type=int, default=4)
    p.add_argument("--only", default="")
    p.add_argument("--jobs", default=HERE)
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--limit", type=float, default=70)
    a = p.parse_args()
    folder = os.path.abspath(a.folder)
    os.makedirs(folder, exist_ok=True)
    names = a.only.split(",") if a.only else [os.path.basename(path)[:3] for path in glob.glob(os.path.join(a.jobs, "[kmnopqrs][0-9][0-9].py"))]
    random.Random(a.seed).shuffle(names)
    with ThreadPoolExecutor(a.n) as pool:
        codes = list(pool.map(lambda name: run(name, folder, a.limit, a.jobs), names))
    raise SystemExit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
