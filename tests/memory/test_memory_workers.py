# SPDX-License-Identifier: Apache-2.0
"""Workers that were forked, used memory, freed it and sleep."""
import pytest
from memorykit import LIBRARY, PROCESSES, measure, scaled

COUNT = {"plain": 20, "engine": scaled(8, 2)}
MIB = {"plain": scaled(304, 24), "engine": scaled(304, 128)}
BLOCK_KIB = [128, 1024, 3072, 12288]


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("rounds", [1, scaled(10, 4)])
@pytest.mark.parametrize("block", BLOCK_KIB)
def test_a_sleeping_worker_holds_little(programs, block, rounds, process):
    """Without an engine, each worker holds at most 8 MiB, and children of an engine process 64 MiB more than glibc's."""
    words = (COUNT[process], MIB[process], block, rounds, scaled(5, 0), 1)
    env = PROCESSES[process]
    bound = 8 if process == "plain" else 64 + measure(programs("workers"), *words, env=env)["held"]
    ours = measure(programs("workers"), *words, env={**env, **LIBRARY})["held"]
    print(f"MEASURED workers {words} {process}: {ours} of {bound}")
    assert ours <= bound


@pytest.mark.parametrize("block", BLOCK_KIB)
def test_a_worker_of_a_parent_with_much_live_memory(programs, block):
    """As servers that load their data before they fork: what the parent uses earns the workers nothing."""
    words = (scaled(20, 5), MIB["plain"] * 2, block, scaled(10, 4), 0, 1, scaled(1000, 200))
    ours = measure(programs("workers"), *words, env=LIBRARY)["held"]
    print(f"MEASURED workers {words}: {ours} of 8")
    assert ours <= 8
