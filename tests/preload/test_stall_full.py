# SPDX-License-Identifier: Apache-2.0
"""Makes a hundred stalls of each kind. At least 95 are in the log, and 90 have the right cause.

Suite full, on a machine with no other work: meson test -C build stall_full. Prints the stalls
found, by cause."""
import collections

import pytest

from stallkit import GIVE_BACK, Own, dropped, stalls  # noqa: F401
from test_stall_cuda import program  # noqa: F401

ENOUGH = 100
IN_PLACE = "dirty_decay_ms:-1,oversize_threshold:0"


def met_a_stop(own):
    """A stop counts as a voluntary switch. A stop just before the call or after it is excluded."""
    return own.waits and not (own.event and own.event["us"] < 100000)


# kind, stalls at once, jemalloc's settings, the call, which stalls count, the cause
ROWS = {
    "forced purge": ("purge", 100, GIVE_BACK, "free", Own.worked, "purge"),
    "munmap": ("unmap", 100, "retain:false," + GIVE_BACK, "free", Own.worked, "map"),
    "copy into fresh pages": ("realloc", 100, GIVE_BACK, "realloc", Own.worked, "faults"),
    "copy into pages that are there": ("realloc", 104, IN_PLACE, "realloc", Own.worked, "copy"),
    "calloc of used pages": ("calloc", 100, IN_PLACE, "calloc", Own.worked, "purge"),
    "contended arena": ("lock", 1000, "narenas:1,tcache:false", None, Own.waited, "lock"),
    "fork": ("fork", 100, "narenas:64", None, Own.waited, "fork"),
    "stop": ("stop", 50, IN_PLACE, "realloc", met_a_stop, "paused"),
}


def tell(capsys, name, total, causes):
    found = ", ".join(f"{n} {cause}" for cause, n in causes.most_common())
    with capsys.disabled():
        print(f"\n{name}: {sum(causes.values())} of {total} logged: {found}")


@pytest.mark.parametrize("name", ROWS)
def test_hundred(stalls, capsys, name):  # noqa: F811
    kind, count, conf, call, counts, cause = ROWS[name]
    seen, beyond = [], 0
    for _ in range(20):
        own, logged = stalls(kind, count, conf, min_us=100000 if kind == "stop" else 2000, timeout=600)
        own = [one for one in own if counts(one) and (not call or one.call == call)]
        seen += own[-100:]  # the first calls of each size still map memory
        beyond += dropped(logged)
        if len(seen) >= ENOUGH:
            break
    assert len(seen) >= ENOUGH, f"only {len(seen)}"
    causes = collections.Counter(one.event["cause"] for one in seen if one.event)
    tell(capsys, name, len(seen), causes)
    assert beyond == 0 or kind == "lock", f"{beyond} had no room in the log"
    assert sum(causes.values()) + beyond >= 0.95 * len(seen)
    right = sum(one.event["cause"] in one.causes(cause) for one in seen if one.event)
    assert right + beyond >= 0.9 * len(seen)


def test_hundred_frees_behind_a_kernel(program, capsys):  # noqa: F811
    _, found = program(f"""
        for i in range({ENOUGH}):
            pointer = c_uint64()
            check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
            spin(8)
            check(cuda.cuMemFree_v2(pointer))
    """)
    frees = [event for event in found if event["call"] == "cuMemFree_v2"]
    causes = collections.Counter(event["cause"] for event in frees)
    tell(capsys, "free behind a kernel", ENOUGH, causes)
    assert len(frees) >= 0.95 * ENOUGH and causes["gpu"] >= 0.9 * ENOUGH
