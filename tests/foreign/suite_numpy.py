# SPDX-License-Identifier: Apache-2.0
"""A part of numpy's own tests: arrays, memory and its policies, linear algebra, random numbers, files."""

from pytest_suite import run_pytest

PARTS = [f"core/tests/test_{name}.py" for name in
         ("multiarray", "mem_overlap", "mem_policy", "memmap", "nditer", "numeric", "ufunc", "regression", "dtype",
          "indexing", "array_coercion", "hashtable", "dlpack", "item_selection", "datetime", "einsum", "umath")]
PARTS += ["linalg/tests/test_linalg.py", "fft/tests", "random/tests/test_generator_mt19937.py", "lib/tests/test_io.py",
          "lib/tests/test_function_base.py", "lib/tests/test_format.py", "ma/tests/test_core.py"]


def run(setting, only):
    parts = PARTS if only is None else [part for part in PARTS if any(part[:-3].replace("/", ".") in test or part in test
                                                                      for test in only)]
    return run_pytest(setting, "numpy", parts, timeout=600, options=["-m", "not slow"])
