# SPDX-License-Identifier: Apache-2.0
"""Threads and children that come and go: what stays does not grow with their number."""
import pytest
from memorykit import LIBRARY, MORE, PROCESSES, measure, measure_natively, needs_jemalloc, peak_bound, scaled

pytestmark = needs_jemalloc
ROWS = {"joined": (800, scaled(40, 10)), "passed": (800, scaled(40, 10)), "children": (4, 6)}
RISE = 16  # MiB that a program may hold more at the end than after half of the rounds


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("kind", ROWS)
def test_churn(programs, kind, process):
    """With an engine, the pages of blocks that the caches of threads took in advance count as memory that comes back, so
    only a further rise is judged there."""
    native = measure_natively(programs("churn"), kind, *ROWS[kind])
    ours = measure(programs("churn"), kind, *ROWS[kind], env={**PROCESSES[process], **LIBRARY})
    print(f"MEASURED churn {kind} {process}: library {ours}, {native}")
    assert ours["held"] <= RISE, (ours, native)
    if process == "plain":
        assert ours["peak"] <= peak_bound(native, False), (ours, native)
        assert ours["rss"] <= 1.1 * max(values["rss"] for values in native.values()) + MORE, (ours, native)
