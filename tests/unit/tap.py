#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a cmocka program and passes its TAP on. cmocka 1.1 says "not ok 3 # SKIP name" of a test that
was skipped, which readers of TAP take for a failure; here it becomes "ok 3 - name # SKIP reason"."""

import re
import subprocess
import sys

reason = "no reason given"
with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as program:
    for line in program.stdout:
        told = re.match(r"# reason: (.*)", line)
        skipped = re.match(r"not ok (\d+) # SKIP (.*)", line)
        if told:
            reason = told.group(1)
            continue
        if skipped:
            line = f"ok {skipped.group(1)} - {skipped.group(2)} # SKIP {reason}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
code = program.returncode
sys.exit(code if code >= 0 else 128 - code)
