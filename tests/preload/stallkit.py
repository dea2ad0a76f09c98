# SPDX-License-Identifier: Apache-2.0
"""What the tests of stalls share: a program that makes them, what it saw itself, and what the log says."""
import json

import pytest

from conftest import APPS

THRESHOLD_US = 1000
HELD_UP = ("preempted", "throttled", "paused")  # by the machine, whatever the call was
GIVE_BACK = "dirty_decay_ms:0,muzzy_decay_ms:0"


def events(path, kind="stall"):
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


class Own:
    """What a program measured itself about one call."""

    def __init__(self, line):
        self.call, *numbers = line.split()
        self.start, self.end, self.tid, self.waits, self.forced, self.cpu = map(int, numbers)
        self.event = None

    def worked(self):
        """Long by what it did: a CPU that was lost just before or after it is not the call's time."""
        return self.cpu >= 2 * THRESHOLD_US * 1000

    def waited(self):
        """Long by waiting: it gave its CPU away itself, and nobody took it."""
        return self.waits and not self.forced and self.cpu * 4 < self.end - self.start

    def causes(self, *right):
        """Whoever lost its CPU for most of the time, to others or to a quota, may be told that."""
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
    """
    stalls(kind, count, conf) -> what the program saw, each with the event of the log or None.
    Without huge pages, with which most of it would be quick.
    """
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


def left_out(logged):
    """Of a storm the log keeps what it has room for, and counts the rest."""
    return sum(event.get("left_out", 0) for event in logged)


def most(found, out_of, counted=0):
    """Three quarters, where two may always be missing: with few of them a share is noise. How many of
    100 it must be is asked where there are 100, in test_stall_full.py."""
    return len(found) >= min(3, len(out_of)) and \
        len(out_of) - len(found) <= max(2, len(out_of) // 4) + counted
