# SPDX-License-Identifier: Apache-2.0
"""Memory that a program uses no more, measured by bench/idle.c: what stays resident is compared with libjemalloc's."""

import glob
import json
import subprocess

import pytest
from conftest import SOURCE

SECONDS = 27  # pages go back after 10 to 20 seconds without use
KINDS = {"freed": "200", "idle": "24", "turns": "24"}
# Environment, and words of the program.
ARMS = {"libjemalloc": ({"LD_PRELOAD": "libjemalloc.so.2"}, []),
        "ours": ({}, []),
        "ours, huge pages": ({"MALLOC_CONF": "thp:always"}, []),
        "ours, a GPU": ({}, ["gpu"])}
MORE_MIB = 64


@pytest.mark.skipif(not glob.glob("/usr/lib/*/libjemalloc.so.2"), reason="no libjemalloc.so.2 to compare with")
def test_what_is_not_reused_goes_back(run, compile_c, tmp_path):
    """All cases are in one test, because it waits: all programs run at the same time."""
    program = compile_c((SOURCE / "bench" / "idle.c").read_text(), "-O2", "-fno-builtin", "-pthread", "-ldl",
                        name="idle")
    started = {}
    for arm, (extra, words) in ARMS.items():
        for kind, number in KINDS.items():
            report = {"GPUFEED_REPORT": tmp_path / f"{kind}.json"} if words else {}
            env = run.env(preload="LD_PRELOAD" not in extra, sim=bool(words), **extra, **report)
            started[arm, kind] = subprocess.Popen([program, kind, number, str(SECONDS), *words], env=env, text=True,
                                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done = {key: process.communicate(timeout=120) for key, process in started.items()}
    assert not any(process.returncode for process in started.values()), done
    assert not any(stderr for _, stderr in done.values()), done
    mib = {key: [float(word) for word in stdout.split()] for key, (stdout, _) in done.items()}
    for (arm, kind), (before, after) in mib.items():
        most = [1.2 * value + MORE_MIB for value in mib["libjemalloc", kind]]
        assert after <= most[1], (arm, kind, mib)
        if kind == "turns":  # its threads sleep from the start: what their caches hold stays
            assert before <= most[0], (arm, kind, mib)
    heap = json.loads((tmp_path / "freed.json").read_text())["heap"]["retained"]
    assert heap["given_back_bytes"] >= 150 << 20, heap
    assert heap["max_bytes"] <= 64 << 20 and heap["unused_bytes"] <= heap["max_bytes"], heap
