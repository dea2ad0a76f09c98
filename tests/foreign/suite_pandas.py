# SPDX-License-Identifier: Apache-2.0
"""A part of pandas' own tests: hash tables, joins, readers, strings."""

from pytest_suite import run_pytest

PARTS = ["tests/libs", "tests/internals", "tests/test_take.py", "tests/test_algos.py", "tests/test_sorting.py",
         "tests/frame/methods/test_sort_values.py", "tests/frame/methods/test_to_csv.py", "tests/reshape/concat",
         "tests/reshape/merge/test_merge.py", "tests/io/parser/test_multi_thread.py", "tests/io/parser/common",
         "tests/strings/test_find_replace.py", "tests/groupby/test_apply.py"]


def run(setting, only):
    parts = PARTS if only is None else [part for part in PARTS
                                        if any(part.removesuffix(".py").replace("/", ".") in test or part in test for test in only)]
    return run_pytest(setting, "pandas", parts, timeout=600, options=["-m", "not slow and not network and not db"])
