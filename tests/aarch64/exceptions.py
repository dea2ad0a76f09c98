# SPDX-License-Identifier: Apache-2.0
"""Reads exceptions.txt: the tests that may fail under qemu's user emulation, each with its reason."""

import pathlib


def read_exceptions(name):
    """Returns {case: reason}. name: a unit test, or SUITE/FILE of a Python test, without test_."""
    found, reason = {}, ""
    for line in pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.split()[:1] == [name]:
            found.update(dict.fromkeys(line.split()[1:], reason))
    return found
