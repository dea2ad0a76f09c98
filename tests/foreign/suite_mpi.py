# SPDX-License-Identifier: Apache-2.0
"""Open MPI: a ring over shared memory, and windows in shared memory. tests/hardening/test_monitored.py tests the
monitors of memory of Open MPI, UCX and libfabric."""

import os

from setting import need

CASES = ("ring", "window", "gather", "spawned")


def run(setting, only):
    need("mpirun", "mpicc")
    program = setting.build("mpi.c", compiler="mpicc")
    found = {}
    for transport in ("vader", "tcp"):
        for case in CASES:
            done = setting.run("mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-n", 4,
                               "--mca", "btl", f"self,{transport}", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "lo",
                               "--mca", "btl_vader_single_copy_mechanism", "cma", "--mca", "plm_rsh_agent", "/bin/false",
                               program, case, feeds=["mpi"], timeout=120)
            text = [line for line in done.stdout.splitlines() if line.startswith("mpi: ")]
            found[f"{case} over {transport}"] = f"exit {done.returncode}: {'; '.join(sorted(text))}"
    return found
