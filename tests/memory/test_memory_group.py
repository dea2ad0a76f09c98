# SPDX-License-Identifier: Apache-2.0
"""Programs in a memory cgroup whose limit is 1.15 times the most that they use with glibc's malloc and libjemalloc; for
the smaller sizes of the suite, at least that and the start budget."""
import pytest
from group import NoGroup, run_in_group
from memorykit import BASE, FULL, LIBRARY, MORE, NATIVE, PROCESSES, PYTHON_PATH, START_BUDGET, command, needs_jemalloc, scaled

pytestmark = needs_jemalloc
WORKERS = scaled(20, 6)
ROWS = {"workers, 16 MiB blocks": ("workers", WORKERS, scaled(304, 64), 16384, 1, scaled(3, 1), scaled(2500, 300)),
        "workers, 1 MiB blocks": ("workers", WORKERS, scaled(300, 64), 1024, 1, scaled(3, 1), scaled(2000, 300)),
        "another phase": ("other_phase", scaled(240, 160), scaled(450, 300), 1),
        "another phase, one thread": ("other_phase", scaled(240, 160), scaled(450, 300), 0),
        "bytearray": ("growth.py", "bytearray", scaled(1000, 200)),
        "random sizes": ("blocks", "random", scaled(400, 200))}
IN_ENGINE = {"workers, 16 MiB blocks", "another phase", "random sizes"}
CASES = [(row, process) for row in ROWS for process in PROCESSES if process == "plain" or row in IN_ENGINE]


def outcome(mib, words, env):
    try:
        return run_in_group(mib, command(*words), env={**BASE, "PYTHONPATH": PYTHON_PATH, **env})
    except NoGroup as error:
        return pytest.skip(str(error))


@pytest.mark.parametrize("row,process", CASES)
def test_limit_of_natives(programs, row, process):
    """Without a limit, the kernel reclaims nothing, so the highest usage shows what the library keeps. With the limit, no
    process is killed."""
    words = [ROWS[row][0] if ROWS[row][0].endswith(".py") else programs(ROWS[row][0]), *ROWS[row][1:]]
    native, free = {}, outcome(0, words, {**PROCESSES[process], **LIBRARY})
    # What holds with glibc's bounds holds with those of the larger one. The acceptance run reports both.
    for names in [list(NATIVE)] if FULL else [["glibc"], ["jemalloc"]]:
        native |= {name: outcome(0, words, {**PROCESSES[process], **NATIVE[name]}) for name in names}
        assert all(found["code"] == 0 for found in native.values()), native
        most = max(found["highest"] for found in native.values())
        ours = outcome(max(int(1.15 * most) + 1, most + START_BUDGET[process] + 8), words, {**PROCESSES[process], **LIBRARY})
        if free["highest"] <= 1.15 * most + MORE and ours["code"] == ours["killed"] == 0:
            break
    print(f"MEASURED group {row} {process}: " + str({name: found["highest"] for name, found in native.items()}),
          "library", free["highest"], "limited", ours["code"], ours["highest"], ours["killed"])
    assert free["code"] == 0 and free["highest"] <= 1.15 * most + MORE, free
    assert ours["code"] == 0 and ours["killed"] == 0, ours
