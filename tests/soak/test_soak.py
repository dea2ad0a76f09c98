# SPDX-License-Identifier: Apache-2.0
"""Allocation, threads, forks, execs, signals and faults for SOAK_MINUTES (default 2; 30 before a
release). Two programs run at the same time: soak.c and pools.py. Each ends at its first error. The
test checks from outside: exit codes; memory, mappings, files and threads, which must not grow; and
a log in which every stall is written or counted."""
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
SECONDS = float(os.environ.get("SOAK_MINUTES", "2")) * 60
# A low threshold, so that many stalls are logged.
STALL_US = 100
PROGRAMS = {"c": [_preload.BUILD / "tests" / "soak" / "soak"],
            "python": ["/usr/bin/python3", HERE / "pools.py"]}


class Soaked:
    def __init__(self, name, folder):
        self.log, self.report = folder / f"{name}.log", folder / f"{name}.json"
        self.output, self.errors = folder / f"{name}.out", folder / f"{name}.err"
        env = _preload.Runner().env(sim=True, GPUFEED_LOG=self.log, GPUFEED_REPORT=self.report,
                                    GPUFEED_STALL_US=STALL_US, PYTHONDONTWRITEBYTECODE=1)
        with self.output.open("w") as out, self.errors.open("w") as err:
            self.process = subprocess.Popen(["nice", "-n", "10", *PROGRAMS[name], str(SECONDS)],
                                            env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.code = None

    def wait(self):
        try:
            self.code = self.process.wait(SECONDS * 1.5 + 120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.code = "hangs"

    def lines(self):
        return self.output.read_text().splitlines()

    def samples(self, column):
        """Returns this figure of all samples without the first fifth, in which the program still grows to its normal
        size."""
        found = [[int(word) for word in line.split()[1:]] for line in self.lines()
                 if line.startswith("sample")]
        assert len(found) >= 20, self.lines()
        return [column(*row) for row in found[len(found) // 5:]]

    def done(self):
        last = self.lines()[-1].split()
        assert last[0] == "done", self.lines()
        return dict(zip(last[1::2], map(int, last[2::2])))


@pytest.fixture(scope="session")
def soaked(tmp_path_factory):
    folder = pathlib.Path(os.environ.get("SOAK_FOLDER") or tmp_path_factory.mktemp("soak"))
    found = {name: Soaked(name, folder) for name in PROGRAMS}
    for one in found.values():
        one.wait()
    return found


BOTH = pytest.mark.parametrize("name", PROGRAMS)


@BOTH
def test_ends_well(soaked, name):
    one = soaked[name]
    assert one.code == 0, (one.code, one.errors.read_text(), one.lines()[-3:])
    assert one.errors.read_text() == ""
    assert min(one.done().values()) > 0, one.done()


@BOTH
@pytest.mark.parametrize("what,slack,column", [
    ("resident", 96 * MIB, lambda second, rss, lazy, maps, files, threads: rss - lazy),
    ("mappings", 40, lambda second, rss, lazy, maps, files, threads: maps),
    ("files", 4, lambda second, rss, lazy, maps, files, threads: files),
    ("threads", 4, lambda second, rss, lazy, maps, files, threads: threads)])
def test_nothing_grows(soaked, name, what, slack, column):
    """Compares the second half of the time with the first, by medians, because single samples
    differ much."""
    found = soaked[name].samples(column)
    first, second = found[:len(found) // 2], found[len(found) // 2:]
    grown = statistics.median(second) - statistics.median(first)
    assert grown <= slack + 0.1 * statistics.median(first), (what, found)


@BOTH
def test_every_stall_is_logged_or_counted(soaked, name):
    one = soaked[name]
    lines = [json.loads(line) for line in one.log.read_text().splitlines()]
    report = json.loads(one.report.read_text())
    assert report["state"] == "ended"
    stalls = sum(line["event"] == "stall" for line in lines)
    told, dropped = report["stalls"]["count"], report["log"]["dropped"]
    assert report["log"]["lines"] == len(lines)
    assert stalls > 20 and told > 20
    # A process that is killed while it writes a line cannot report that line.
    killed = one.done().get("children", 0) // 11 + one.done().get("workers", 0) // 5
    assert told <= stalls + dropped + killed, (told, stalls, dropped)
    # Other events are few: for threads, at most one per second.
    assert stalls + dropped <= told + SECONDS + 50, (told, stalls, dropped)
    # The lines themselves report the dropped lines up to the last line of the file.
    assert sum(line.get("dropped", 0) for line in lines) <= dropped
    assert one.log.stat().st_size < 66 * MIB


@BOTH
def test_lines_of_the_executed_are_whole(soaked, name):
    path = soaked[name].log.with_name(soaked[name].log.name + ".executed")
    if path.exists():
        assert all(json.loads(line) for line in path.read_text().splitlines())
