# SPDX-License-Identifier: Apache-2.0
"""A disk that cannot read the last blocks of a file (EIO): programs see the same as without the library. The disk is a
loop device whose image is truncated."""

import contextlib
import os
import re
import subprocess

import pytest
from conftest import APPS

LIBRARIES = (APPS / "_safetensors_rust.abi3.so", APPS / "libpython_test.so")
MIB = 1 << 20
SIZE, GOOD = 40 * MIB, 24 * MIB  # bytes of the file, and how many the disk can read
TRIES = 6  # files until one is in one extent
OPTIONS = {"GPUFEED_STAGE_THREADS": 4, "KIT_ALARM": 150}


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} cannot be used here: {done.stderr.strip()[-200:]}")
    return done.stdout


def extents(path):
    """Returns the first block of each extent on the disk."""
    lines = command("filefrag", "-b4096", "-v", str(path)).splitlines()
    rows = [re.match(r" *\d+: *\d+\.\. *\d+: *(\d+)\.\.", line) for line in lines]
    return [int(row[1]) for row in rows if row]


def write_in_one_extent(folder):
    """Returns the path of a file that is one extent, and the place of its first byte on the disk. The file system
    chooses the blocks, so the first files may be divided."""
    content = (bytes((i * i >> 5) & 255 for i in range(MIB + 1)) * (SIZE // MIB))[:SIZE]
    for number in range(TRIES):
        path = folder / f"weights{number}"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, SIZE)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        places = extents(path)
        if len(places) == 1:
            return path, places[0] * 4096
    raise AssertionError(f"each of {TRIES} files has several extents")


@contextlib.contextmanager
def mounted(image, folder, *options):
    command("mount", "-o", ",".join(("loop", *options)), str(image), str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of a disk that has lost all blocks from GOOD on."""
    if os.geteuid():
        pytest.skip("only root can mount a loop device")
    base = tmp_path_factory.mktemp("disk")
    image, folder = base / "image", base / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate((2 * TRIES + 4) * SIZE)
    command("mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", "-N", "64", str(image))
    with mounted(image, folder):
        weights, start = write_in_one_extent(folder)
    with mounted(image, folder, "ro"):
        os.truncate(image, start + GOOD)
        yield weights


@pytest.mark.parametrize("readahead", ["off", "on"])
@pytest.mark.parametrize("what, code", [("in-order", 0), ("offsets", 0), ("copy", 57)])
def test_as_natively(run, path, what, code, readahead):
    plain, ours = run.both(APPS / "badblocks", what, path, *LIBRARIES, sim=True, GPUFEED_READAHEAD=readahead, **OPTIONS)
    if "errno 5" not in plain.stdout and f"{GOOD} of the file" not in plain.stdout:
        pytest.skip(f"the loop device reads the lost blocks without an error: {plain.stdout[-200:]}")
    assert plain.returncode == code and str(GOOD) in plain.stdout, (plain.stdout, plain.stderr)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
