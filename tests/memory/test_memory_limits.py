# SPDX-License-Identifier: Apache-2.0
"""Programs with a limit of their address space or data. What succeeds with glibc's malloc succeeds with the library."""
import pytest
from memorykit import LIBRARY, PROCESSES, finish, scaled, start

LIMITS = [100, scaled(1000, 300)]  # MiB
C_ROWS = [(kind, mib, when) for kind in ("parts", "turns") for mib in LIMITS for when in ("setrlimit",)] + \
         [("parts", 300, when) for when in ("prlimit", "prlimit64", "inherited")] + \
         [("first", mib, when) for mib in (200, 1000) for when in ("setrlimit", "inherited")] + \
         [("data_parts", 300, "setrlimit"), ("data_first", 300, "setrlimit"), ("data_turns", 300, "setrlimit"),
          ("grow", 300, "setrlimit"), ("raise", 200, "setrlimit"), ("raise", 200, "other"),
          ("move", 300, "setrlimit"), ("move", 1000, "inherited"), ("data_move", 300, "setrlimit"),
          ("stacks", 60, "setrlimit"), ("holes", 600, "setrlimit"), ("holes", 600, "inherited")]
STEPS = ["big", "small", "threads", "small_stacks", "fork", "load", "full", "file", "child", "numpy"]


def inherited(words):
    return ["prlimit", f"--as={int(words[1]) << 20}"] if words[-1] == "inherited" else []


def compare(program, *words, process="plain"):
    """Each line that ends with ok natively must do so with the library."""
    env = PROCESSES[process]
    code, native, err = finish(start(program, *words, env=env, prefix=inherited(words)))
    assert code == 0, (code, native, err)
    code, ours, err = finish(start(program, *words, env={**env, **LIBRARY}, prefix=inherited(words)), timeout=60)
    missing = set(line for line in native.splitlines() if line.endswith(" ok")) - set(ours.splitlines())
    print(f"MEASURED limits {words} {process}: {code}, fails only with the library: {sorted(missing)}", err[-200:])
    assert code == 0 and not missing, (code, err, missing)


@pytest.mark.parametrize("kind,mib,when", C_ROWS)
def test_c_program(programs, kind, mib, when):
    compare(programs("limits"), kind, mib, when)


@pytest.mark.parametrize("kind,when", [("parts", "prlimit64"), ("turns", "setrlimit")])
def test_process_with_an_engine(programs, kind, when):
    compare(programs("limits"), kind, scaled(1000, 400), when, process="engine")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mib", [150, scaled(600, 300)])
def test_python_worker(step, mib):
    compare("limits.py", step, mib)




@pytest.mark.parametrize("limit", ["as", "data"])
def test_first_malloc_of_a_locked_process(programs, limit):
    code, out, err = finish(start(programs("locked"), limit, env=LIBRARY))
    if code == 77:
        pytest.skip("RLIMIT_MEMLOCK is too low, without CAP_IPC_LOCK")
    assert (code, out) == (0, "locked ok\n"), (code, out, err)
