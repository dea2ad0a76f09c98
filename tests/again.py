#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats each failed test of the last run alone: again.py BUILD [ARGUMENT of meson test...]

Many tests start programs that wait for each other, so a machine that runs other work may stop one
of them for seconds. A test that also fails alone has failed. Reports of sanitizers are not
repeated, because a race may need the load. The results are in meson-logs/testlog-again.*, which
tests/count.py reads."""
import json
import pathlib
import re
import subprocess
import sys

REPORT = re.compile(r"(Thread|Address|Leak)Sanitizer|runtime error:")
MOST = 12  # more failures than this have a common cause, and repeating them would take too long


def failed(build):
    """Returns the names, without suite, of the tests to be repeated."""
    logs = sorted((build / "meson-logs").glob("testlog*.json"))
    runs = [json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    return [run["name"].rsplit(" / ", 1)[-1] for run in runs
            if run["result"] in ("ERROR", "FAIL", "TIMEOUT")
            and not REPORT.search(run.get("stdout", "") + run.get("stderr", ""))]


def main():
    build = pathlib.Path(sys.argv[1])
    for old in (build / "meson-logs").glob("testlog-again.*"):
        old.unlink()
    names = failed(build)
    if not names or len(names) > MOST:
        return 0
    print(f"again, alone: {' '.join(names)}", flush=True)
    return subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--logbase", "testlog-again",
                           "--num-processes", "1", "--print-errorlogs", *sys.argv[2:], *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
