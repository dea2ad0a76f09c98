# SPDX-License-Identifier: Apache-2.0
"""Runs the rows of one layout in the guest and prints TAP."""

import glob
import importlib
import json
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rows
from program import Program

ROW_SECONDS = 60


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def late(_signal, _frame):
    raise TimeoutError(f"the row took over {ROW_SECONDS} s")


def attempt(function, machine):
    """Runs a row. Returns None, or the exception that ended it."""
    signal.signal(signal.SIGALRM, late)
    signal.alarm(ROW_SECONDS)
    try:
        function(machine)
        return None
    except Exception as error:
        error.logs = [program.errors() for program in Program.live]
        return error
    finally:
        signal.alarm(0)
        Program.kill_all()
        machine.restore()


def explain(error):
    text = "".join(traceback.format_exception(error))
    for log in getattr(error, "logs", []):
        text += "standard error of a program:\n" + log
    for line in text.splitlines():
        say("# " + line)


def verdict(number, name, error, started):
    seconds = time.monotonic() - started
    if isinstance(error, rows.Skip):
        say(f"ok {number} - {name} # SKIP {error}")
    elif error is None:
        say(f"ok {number} - {name} ({seconds:.1f} s)")
    else:
        say(f"not ok {number} - {name} ({seconds:.1f} s)")
        explain(error)


def control(error):
    """Judges a positive row that ran without binding. It must find misplaced threads or pages, and no other error."""
    if isinstance(error, (rows.Misplaced, rows.Skip)):
        return error if isinstance(error, rows.Skip) else None
    return error or AssertionError("the row passes with GPUFEED_BIND=off: it proves nothing")


def main():
    with open("/vm/config.json") as file:
        config = json.load(file)
    for module in config["modules"]:
        for file in sorted(glob.glob(f"/vm/rows_{module}.py")):
            importlib.import_module(os.path.basename(file)[:-3])
    chosen = [row for row in rows.ROWS if config["layout"] in row.layouts
              and config["only"] in row.name]
    say(f"# {config['layout']}: the guest was ready after {open('/proc/uptime').read().split()[0]} s")
    controls = config["controls"]
    plan = sum(2 if row.positive and controls else 1 for row in chosen)
    say(f"1..{plan}")
    number = 0
    for row in chosen:
        number += 1
        started = time.monotonic()
        verdict(number, row.name, attempt(row.function, rows.Machine(config)), started)
        if row.positive and controls:
            number += 1
            started = time.monotonic()
            error = attempt(row.function, rows.Machine(config, bind_off=True))
            verdict(number, row.name + ": fails with GPUFEED_BIND=off", control(error), started)


main()
