#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulated driver's transcript with the recorded one, row by row. Rows that
tests/conformance/README.md lists with a reason may differ. No other row may differ or be missing, and a listed row
that no longer differs must be removed from the list. Whether a call "blocks" is measured by time, so a section that
differs is run again with more time."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def sections_of(text):
    """Returns {section: {row: value}}, in the transcript's order."""
    found = {}
    for line in text.splitlines():
        row, _, value = line.partition(" = ")
        found.setdefault(row.split(".")[0], {})[row] = value
    return found


def listed(path):
    return set(re.findall(r"^\| `([^`]+)` \|", path.read_text(), re.MULTILINE))


def ask(program, section, library, milliseconds):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SIM_", "CUDA_", "GPUFEED"))}
    env.update(LD_LIBRARY_PATH=library, CONFORM_MS=str(milliseconds))
    done = subprocess.run([program, section], env=env, capture_output=True, text=True,
                          timeout=280, check=False)
    if done.returncode:
        return {"": f"section {section} ended with {done.returncode}: {done.stderr}"}
    return sections_of(done.stdout).get(section, {})


def differences(expected, seen, allowed):
    for row in expected | seen:
        if row not in allowed and expected.get(row) != seen.get(row):
            yield f"{row}\n    recorded:  {expected.get(row)}\n    simulated: {seen.get(row)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("library", help="folder of the simulated libcuda.so.1")
    parser.add_argument("recorded", type=pathlib.Path)
    parser.add_argument("document", type=pathlib.Path)
    options = parser.parse_args()
    recorded = sections_of(options.recorded.read_text())
    allowed = listed(options.document)
    failed, seen = [], {}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        first = {s: pool.submit(ask, options.program, s, options.library, 300) for s in recorded}
        for section, expected in recorded.items():
            seen[section] = first[section].result()
            for milliseconds in (600, 1200):
                if not list(differences(expected, seen[section], allowed)):
                    break
                seen[section] = ask(options.program, section, options.library, milliseconds)
            failed += differences(expected, seen[section], allowed)
    every = {row: value for rows in recorded.values() for row, value in rows.items()}
    shown = {row: value for rows in seen.values() for row, value in rows.items()}
    failed += [f"{row}: listed in {options.document.name}, but recorded nowhere"
               for row in allowed if row not in every]
    failed += [f"{row}: listed in {options.document.name}, but it agrees"
               for row in allowed if row in every and every[row] == shown.get(row)]
    print(*failed, sep="\n")
    print(f"{len(every)} rows recorded, {len(allowed)} listed as different, {len(failed)} wrong")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
