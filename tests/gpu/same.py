# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library, several at a time, and compares their output."""

import concurrent.futures
import os
import signal
import subprocess
import threading
import time

from common import PRELOAD, DRY, OUT, SOURCE, find_sim, time_left

PYTHON = os.environ.get("GF_PYTHON", "/usr/bin/python3" if DRY else "python3")
_children, _lock = set(), threading.Lock()


def _stop(*_):
    """device.sh terminates a stage that exceeds its time. The stage then kills its processes."""
    for pid in list(_children):
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    os._exit(1)


signal.signal(signal.SIGTERM, _stop)


class Done:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def tail(self):
        return (self.out[-300:] + self.err[-900:]).replace("\n", " | ")


def environment(library, extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED") and k != "LD_PRELOAD"}
    env["PYTHONUNBUFFERED"] = "1"
    if DRY:
        env["LD_LIBRARY_PATH"] = str(find_sim())
    if library:
        env.update(LD_PRELOAD=str(PRELOAD), GPUFEED_VERBOSE="1")
    else:
        extra = {k: v for k, v in extra.items() if not k.startswith("GPUFEED")}
    env.update({k: str(v) for k, v in extra.items()})
    return env


def start(name, command, library, limit, env):
    """Runs a command and returns the finished run. Its code is "timeout" if the limit or the stage's time ended
    it."""
    OUT.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    child = subprocess.Popen([str(c) for c in command], env=environment(library, env), cwd=SOURCE,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", start_new_session=True)
    with _lock:
        _children.add(child.pid)
    try:
        out, err = child.communicate(timeout=max(3.0, min(limit, time_left())))
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        code = "timeout"
    with _lock:
        _children.discard(child.pid)
    took = time.monotonic() - begun
    (OUT / f"{name}{'' if library else '-bare'}.log").write_text(
        f"$ {' '.join(map(str, command))}\n[library {library}, {took:.1f} s, exit {code}]\n{out}\n"
        f"--- stderr\n{err}\n", encoding="utf-8")
    return Done(code, out, err, took)


def many(jobs, workers=4):
    """Runs jobs {name: (command, limit, environment)}, `workers` at a time. Returns {name: (run without the library,
    run with it)}."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = {}
        for name, (command, limit, env) in jobs.items():
            bare_env = dict(env)
            waiting[name] = [pool.submit(start, name, command, library, limit, bare_env)
                             for library in (False, True)]
        result = {}
        for name, pair in waiting.items():
            result[name] = tuple(one.result() for one in pair)
            print(f"# {name}: {result[name][0].code} in {result[name][0].seconds:.1f} s, "
                  f"{result[name][1].code} in {result[name][1].seconds:.1f} s", flush=True)
    return result


def first_difference(one, other):
    mine, theirs = one.splitlines(), other.splitlines()
    for index, (a, b) in enumerate(zip(mine, theirs)):
        if a != b:
            return f"line {index + 1}: `{a[:160]}` without, `{b[:160]}` with"
    if len(mine) == len(theirs):
        return "nothing"
    longer, which = (mine, "without") if len(mine) > len(theirs) else (theirs, "with")
    return f"{len(mine)} and {len(theirs)} lines, the next only {which}: `{longer[min(len(mine), len(theirs))][:160]}`"


def judge(check, name, pair, tidy=lambda text: text, wanted=0):
    """Checks that both exit codes are the wanted one, and that both outputs are equal and not empty."""
    bare, ours = pair
    if bare.code != wanted:
        # A program that fails without the library proves nothing.
        check.skip(name, f"without the library: exit {bare.code}, with it {ours.code}: {bare.tail()[-400:]}")
        return False
    one, other = tidy(bare.out), tidy(ours.out)
    if bare.code != ours.code:
        return check(False, name, f"exit code {bare.code} without, {ours.code} with: {ours.tail()}")
    return check(bool(one) and one == other, f"{name}: the same with and without",
                 f"exit {ours.code}, {len(one.splitlines())} lines" if one == other else first_difference(one, other))
