# SPDX-License-Identifier: Apache-2.0
"""Plain Python: multiprocessing's workers, for each start method."""

from program import Program
from rows import NODE1, check_said, check_threads, eventually, row
from worker import METHODS


@row("two", positive=True)
def row_workers_of_plain_python(machine):
    program = Program("/usr/bin/python3", "-S", "/vm/worker.py", env=machine.env(NODE1))
    pid = program.at("started")
    before = [program.at(f"before-{method}") for method in METHODS]
    for one in before:
        check_threads(one, machine.cpus)
    program.go()
    program.at("ready")
    after = [program.at(f"after-{method}") for method in METHODS]
    for one in [pid, *before, *after]:
        eventually(lambda one=one: check_threads(one, machine.nodes[1]))
    check_said(program, NODE1, "node 1")
    program.go(*before, *after, pid)
    assert program.end() == 0
    lines = [line for line in program.errors().splitlines() if "GPU 0" in line]
    assert len(lines) == 1, lines  # only the process that has a context prints lines
