# SPDX-License-Identifier: Apache-2.0
"""The most memory that programs use whose blocks grow, or come and go in varying sizes."""
import pytest
from memorykit import FULL, LIBRARY, PROCESSES, measure, natives_until, needs_jemalloc, peak_bound, scaled

pytestmark = needs_jemalloc
C_GROWTH = ["realloc", "realloc2", "steps", "columns", "beside"]
C_LIKE_GROWTH = ["vector", "table", "shrink", "cut", "stream"]
PYTHON_GROWTH = ["bytearray", "list", "str", "array"]
PYTHON_OTHERS = ["dict", "set", "bytesio", "stringio", "pipe", "recv", "pickle", "numpy", "numpy_append", "arrays", "pairs"]
BLOCKS = ["rising", "falling", "random", "swing", "calloc", "aligned", "border", "middle", "phases", "crowd", "threads",
          "trim", "passed", "advised"]
ROWS = [("growth", kind, True) for kind in C_GROWTH] + [("growth", kind, False) for kind in C_LIKE_GROWTH] + \
       [("growth.py", kind, True) for kind in PYTHON_GROWTH] + [("growth.py", kind, False) for kind in PYTHON_OTHERS] + \
       [("blocks", kind, False) for kind in BLOCKS]
IN_ENGINE = {"realloc", "vector", "shrink", "bytearray", "arrays", "pairs", "rising", "swing", "phases", "middle", "crowd", "advised"}
# Growing buffers whose freed halves an engine keeps: the second half of the new buffer counts as live before the program touches it.
GROWTH_IN_ENGINE = {"stream", "pickle"}
CASES = [(*row, process) for row in ROWS for process in PROCESSES if process == "plain" or FULL or row[1] in IN_ENGINE]


@pytest.mark.parametrize("program,kind,growth,process", CASES, ids=[f"{row[0]}-{row[1]}-{row[3]}" for row in CASES])
def test_peak(programs, program, kind, growth, process):
    mib = scaled(700 if program.startswith("growth") else 400, 150)
    growth = growth or (process != "plain" and kind in GROWTH_IN_ENGINE)
    path = program if program.endswith(".py") else programs(program)
    ours = measure(path, kind, mib, env={**PROCESSES[process], **LIBRARY})

    def fits(native):
        return ours["peak"] <= peak_bound(native, growth)
    native = natives_until(fits, path, kind, mib)
    print(f"MEASURED {program} {kind} {mib} {process}: " + " ".join(
        f"{name} {values['peak']:.0f}/{values['cpu']:.2f}/{values['faults']}" for name, values in {**native, "library": ours}.items()))
    assert fits(native), (ours, native)
    if growth:
        # A buffer that moves instead of growing takes new pages: libjemalloc has six times as many faults in "realloc". CPU time
        # says less: a huge page that a virtual machine had given back to its host costs milliseconds at its first use.
        assert ours["faults"] <= 1.5 * native["glibc"]["faults"] + 4096, (ours, native)
