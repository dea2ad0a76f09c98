# SPDX-License-Identifier: Apache-2.0
"""A dry run of bench/nodes.py, whose output becomes comments of the TAP. No test names this file, because the run takes
minutes: python3 tests/vm/run.py two --rows bench --seconds 1500 --build build --program build/tests/vm/vm_program --refuse build/tests/vm/vm_refuse"""

import signal
import subprocess

from rows import NODE0, NODE1, row

SECONDS = 1000
PARTS = "places,latency"


@row("two")
def row_bench_of_nodes(machine):
    signal.alarm(SECONDS)
    machine.pretend_gpu(NODE0, NODE1)
    env = machine.env(preload=False, GF_DRY=1, GF_BUILD="/vm/build", GF_PYTHON="/usr/bin/python3")
    command = ["/usr/bin/python3", "-S", "/vm/bench/nodes.py", "--only", PARTS, "--seconds", str(SECONDS)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout:
            print("#", line, end="", flush=True)
    assert running.returncode == 0, running.returncode
