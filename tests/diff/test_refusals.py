# SPDX-License-Identifier: Apache-2.0
"""Refuses every call of the system that staging and pinning make themselves. The program's results stay the same, and
one line says which feature is off."""

import pytest
from conftest import APPS
from test_injection import LINES, REFUSALS, STAGED, expected, lines_about, native  # noqa: F401

PROGRAM_TOO = {"large-map", "large-unmap"}  # the program makes these calls itself; the others change nothing natively


def plain(run, expected, refusal, *how):  # noqa: F811
    return native(run, expected, *how, *({refusal} & PROGRAM_TOO))


@pytest.mark.parametrize("refusal", REFUSALS)
def test_calls_of_the_system(run, expected, refusal):  # noqa: F811
    done = run(APPS / "steps", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, plain(run, expected, refusal)), done.stderr
    assert len(lines_about(done)) in LINES.get(refusal, [0]), done.stderr


@pytest.mark.parametrize("refusal", sorted(set(REFUSALS) - {"large-map"}))
def test_calls_of_the_system_before_registering(run, expected, refusal):  # noqa: F811
    done = run(APPS / "steps", "registering", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, plain(run, expected, refusal, "registering")), done.stderr
    # Helpers start for the unmaps, except on a machine with two CPUs.
    assert len(lines_about(done)) <= (refusal == "threads"), done.stderr


@pytest.mark.parametrize("refusal", sorted(set(REFUSALS) - {"large-unmap"}))
def test_calls_of_the_system_beside_shared_memory(run, expected, refusal):  # noqa: F811
    done = run(APPS / "steps", "sharing", refusal, sim=True, **STAGED)
    if done.returncode == 77:
        pytest.skip("no seccomp filters here")
    assert (done.returncode, done.stdout) == (0, plain(run, expected, refusal, "sharing")), done.stderr
    assert len(lines_about(done)) <= 1, done.stderr
