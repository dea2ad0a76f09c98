# SPDX-License-Identifier: Apache-2.0
"""Copies from mapped files: helpers read the file ahead, and the program sees no difference."""

import json

import pytest
from conftest import APPS

STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": 1 << 20, "GPUFEED_READAHEAD": "on", "KIT_ALARM": 100}
DISKS = {"ext4", "xfs", "f2fs", "btrfs", "overlay"}


def file_system(folder):
    """Returns the type of the file system that contains the folder."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        lines = [line.split(" - ") for line in mounts]
    best = max((line for line in lines
                if f"{folder}/".startswith(line[0].split()[4].rstrip("/") + "/")),
               key=lambda line: len(line[0].split()[4]))
    return best[1].split()[0]


@pytest.fixture(name="disk")
def disk_folder(tmp_path):
    if file_system(tmp_path) not in DISKS:
        pytest.skip(f"{tmp_path} is on no disk")
    return tmp_path


def both(run, *command, **environment):
    return run.both(APPS / "mapped", *command, sim=True, **{**STAGED, **environment})


def same(run, disk, what, *how, code=0):
    plain, ours = both(run, what, disk, *how)
    assert plain.returncode == code, (plain.returncode, plain.stdout)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


@pytest.mark.parametrize("what", ["shared", "written", "overwritten", "locked", "unmapped", "few", "random"])
def test_as_natively(run, disk, what):
    same(run, disk, what)


@pytest.mark.parametrize("how, code", [((), -7), (("catch",), 57)], ids=["killed", "caught"])
@pytest.mark.parametrize("what", ["truncated", "tail"])
def test_behind_the_end_as_natively(run, disk, what, how, code):
    """A copy beyond the end of the file raises SIGBUS on the same thread as without the library."""
    same(run, disk, what, *how, code=code)


def counts(run, disk, what, **environment):
    report = disk / "report.json"
    done = run(APPS / "mapped", what, disk, sim=True, GPUFEED_REPORT=report, **{**STAGED, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text())["transfers"]["readahead"]


def test_files_are_read_ahead(run, disk):
    counted = counts(run, disk, "shared")
    assert counted["files"] > 0 and counted["advised_bytes"] > 0, counted
    assert 0 < counted["used_bytes"] <= counted["ahead_bytes"], counted


@pytest.mark.parametrize("call", ["io-priority", "set-io-priority", "willneed"])
def test_a_refused_call_ends_reading_ahead(run, disk, call):
    report = disk / "report.json"
    plain, ours = both(run, "shared", disk, MAPPED_REFUSE=call, GPUFEED_REPORT=report)
    assert plain.returncode == 0 and (ours.returncode, ours.stdout) == (0, plain.stdout), ours.stderr
    counted = json.loads(report.read_text())["transfers"]["readahead"]
    assert (counted["advised_bytes"], counted["ahead_bytes"]) == (0, 0), counted


def test_option_off(run, disk):
    assert counts(run, disk, "shared", GPUFEED_READAHEAD="off") == {
        "files": 0, "advised_bytes": 0, "ahead_bytes": 0, "used_bytes": 0}


def test_random_order_is_not_read_ahead(run, disk):
    counted = counts(run, disk, "random")
    assert counted["files"] == 2 and counted["ahead_bytes"] == 0, counted


def test_memory_without_a_disk_is_not_read_ahead(run, disk):
    if file_system("/dev/shm") != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs")
    folder = f"/dev/shm/gpufeed-mapped-{disk.name}"
    done = run("sh", "-c", f"mkdir -p {folder} && {APPS}/mapped written {folder}; rm -r {folder}", sim=True,
               GPUFEED_REPORT=disk / "report-%p.json", **STAGED)
    assert "done\n" in done.stdout, done.stderr
    report, = disk.glob("report-*.json")
    assert json.loads(report.read_text())["transfers"]["readahead"]["files"] == 0
