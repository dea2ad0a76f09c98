# SPDX-License-Identifier: Apache-2.0
"""A dry run of bench/nodes.py, whose output becomes comments of the TAP. No test names this file, because the run takes
minutes: python3 tests/vm/run.py two --rows bench --seconds 1500 --build build --program build/tests/vm/vm_program --refuse build/tests/vm/vm_refuse"""

import os
import signal
import subprocess

from rows import NODE0, NODE0_SECOND, NODE1, NODE1_SECOND, row

SECONDS = 1300
PARTS = os.environ.get("GF_PARTS", "places,latency,copies")


@row("two")
def row_bench_of_nodes(machine):
    signal.alarm(SECONDS)
    machine.pretend_gpu(NODE0, NODE0_SECOND, NODE1, NODE1_SECOND)
    env = machine.env(preload=False, GF_DRY=1, GF_BUILD="/vm/build", GF_PYTHON="/usr/bin/python3")
    done = subprocess.run(["/usr/bin/python3", "-S", "/vm/bench/nodes.py", "--only", PARTS, "--seconds", str(SECONDS)], env=env,
                          capture_output=True, text=True, check=False)
    print(*(f"# {line}" for line in (done.stdout + done.stderr).splitlines()), sep="\n", flush=True)
    assert done.returncode == 0, done.returncode
