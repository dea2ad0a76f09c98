# SPDX-License-Identifier: Apache-2.0
"""Threads and children that come and go: what stays does not grow with their number."""
import pytest
from memorykit import LIBRARY, MORE, PROCESSES, measure, natives_until, needs_jemalloc, peak_bound, scaled

pytestmark = needs_jemalloc
ROWS = {"joined": (scaled(800, 400), scaled(40, 10)), "passed": (scaled(800, 400), scaled(40, 10)), "children": (4, 6)}
RISE = 16  # MiB that a program may hold more at the end than after half of the rounds


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("kind", ROWS)
def test_churn(programs, kind, process):
    """With an engine, the pages of blocks that the caches of threads took in advance count as memory that comes back, so
    only a further rise is judged there."""
    ours = measure(programs("churn"), kind, *ROWS[kind], env={**PROCESSES[process], **LIBRARY})

    def fits(native):
        return process != "plain" or (ours["peak"] <= peak_bound(native, False) and
                                      ours["rss"] <= 1.1 * max(values["rss"] for values in native.values()) + MORE)
    native = natives_until(fits, programs("churn"), kind, *ROWS[kind])
    print(f"MEASURED churn {kind} {process}: library {ours}, {native}")
    assert ours["held"] <= RISE, (ours, native)
    assert fits(native), (ours, native)
