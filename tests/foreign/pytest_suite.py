# SPDX-License-Identifier: Apache-2.0
"""Runs an installed package's own tests with pytest, and reads the outcome of each."""

import xml.etree.ElementTree as ElementTree

from setting import Missing


def outcome_of(case):
    for name in ("failure", "error"):
        found = case.find(name)
        if found is not None:
            return f"failed: {(found.get('message') or name).splitlines()[0][:80]}"
    skipped = case.find("skipped")
    return "passed" if skipped is None else f"skipped: {(skipped.get('message') or '')[:80]}"


def read_outcomes(file):
    """Returns {test: outcome} of a junit file. Tests with equal names and parameters get a number."""
    found = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = base = f"{case.get('classname')}::{case.get('name')}"
        number = 1
        while name in found:
            number += 1
            name = f"{base}#{number}"
        found[name] = outcome_of(case)
    return found


def run_pytest(setting, package, parts, timeout, options=()):
    """Runs each part (a file or folder of the package's tests) in a separate process. So a crash affects only that
    part."""
    probe = setting.run("/usr/bin/python3", "-c", f"import pytest, hypothesis, {package}; print({package}.__path__[0])")
    if probe.returncode:
        raise Missing(f"no {package} with pytest and hypothesis: scripts/packages.sh --foreign")
    folder, found = probe.stdout.split()[-1], {}
    for part in parts:
        report = setting.folder / f"{part.replace('/', '.')}.xml"
        done = setting.run("/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report,
                           "-W", "ignore", *options, f"{folder}/{part}", feeds=["python3"], timeout=timeout,
                           PYTHONHASHSEED=0, PYTHONDONTWRITEBYTECODE=1, OMP_NUM_THREADS=2, OPENBLAS_NUM_THREADS=2)
        found[f"{part}: exit code"] = f"exit {done.returncode}"
        if report.exists():
            found.update(read_outcomes(report))
    return found
