# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of stalls: a program that makes them, its own measurements, and the log's
events."""

import pytest

from conftest import APPS
from schemakit import read_log

THRESHOLD_US = 1000
HELD_UP = ("preempted", "throttled", "paused")  # causes that the machine's load can add to any call
GIVE_BACK = "dirty_decay_ms:0,muzzy_decay_ms:0"


def events(path, kind="stall"):
    if not path.exists():
        return []
    found = read_log(path)
    return [event for event in found if event["event"] == kind]


class Own:
    """The program's own measurement of one call."""

    def __init__(self, line):
        self.call, *numbers = line.split()
        self.start, self.end, self.tid, self.waits, self.forced, self.cpu = map(int, numbers)
        self.event = None

    def worked(self):
        """Returns whether the call was long because of its work. CPU time that the thread lost just before or after
        the call does not count."""
        return self.cpu >= 2 * THRESHOLD_US * 1000

    def waited(self):
        """Returns whether the call was long because it waited: the thread gave up its CPU and was not preempted."""
        return self.waits and not self.forced and self.cpu * 4 < self.end - self.start

    def causes(self, *right):
        """Returns the causes that the log may name. If the thread was preempted for most of the call, preemption and
        the quota are right, too."""
        lost = self.forced and self.cpu * 2 < self.end - self.start
        return (*right, "preempted", "throttled") if lost else right

    def find(self, logged):
        for event in logged:
            start, us = event["start"] * 1e9, event["us"] * 1000
            if event["tid"] == self.tid and start < self.end and start + us > self.start and \
                    us * 2 > min(self.cpu, self.end - self.start):
                self.event = event


@pytest.fixture
def stalls(run, tmp_path):
    """stalls(kind, count, conf) -> the program's measurements, each with its event of the log or
    None.

    Huge pages are off, because they make most of these calls quick."""
    def call(kind, count, conf="", min_us=2 * THRESHOLD_US, timeout=120, **env):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        found = run(APPS / "stalls", kind, count, min_us, GPUFEED_LOG=log, MALLOC_CONF=conf,
                    GPUFEED_STALL_US=THRESHOLD_US, GPUFEED_PROFILE="inference", timeout=timeout, **env)
        assert found.returncode == 0, found.stderr
        logged = events(log)
        own = [Own(line) for line in found.stdout.splitlines()]
        for one in own:
            one.find(logged)
        return own, logged
    return call


def dropped(logged):
    """The number of lines that the log dropped, because there were too many stalls at once."""
    return sum(event.get("dropped", 0) for event in logged)


def most(found, out_of, counted=0):
    """Returns whether three quarters were found. Two may always be missing, because a percentage of a few stalls is
    noise. test_stall_full.py checks percentages of 100."""
    return len(found) >= min(3, len(out_of)) and \
        len(out_of) - len(found) <= max(2, len(out_of) // 4) + counted
