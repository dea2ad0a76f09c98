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
OPTIONS = {"GPUFEED_STAGE_THREADS": 4, "KIT_ALARM": 150}


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} cannot be used here: {done.stderr.strip()[-200:]}")
    return done.stdout


def place_of(path, offset):
    """Returns where the byte of the file is on its disk."""
    for line in command("filefrag", "-b4096", "-v", str(path)).splitlines():
        found = re.match(r" *\d+: *(\d+)\.\. *(\d+): *(\d+)\.\.", line)
        if found and int(found[1]) * 4096 <= offset < (int(found[2]) + 1) * 4096:
            return int(found[3]) * 4096 + offset - int(found[1]) * 4096
    return pytest.skip("the place of the file's blocks is not known")


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
        file.truncate(160 * MIB)
    # Without a journal and with few inodes, the file is one extent, behind the tables of the file system.
    command("mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", "-N", "64", str(image))
    with mounted(image, folder):
        (folder / "weights").write_bytes(bytes((i * i >> 5) & 255 for i in range(MIB + 1)) * (SIZE // MIB))
        os.truncate(folder / "weights", SIZE)
        command("sync", "-f", str(folder))
        end = place_of(folder / "weights", GOOD)
    with mounted(image, folder, "ro"):
        os.truncate(image, end)
        yield folder / "weights"


@pytest.mark.parametrize("readahead", ["off", "on"])
@pytest.mark.parametrize("what, code", [("in-order", 0), ("offsets", 0), ("copy", 57)])
def test_as_natively(run, path, what, code, readahead):
    plain, ours = run.both(APPS / "badblocks", what, path, *LIBRARIES, sim=True, GPUFEED_READAHEAD=readahead, **OPTIONS)
    if "errno 5" not in plain.stdout and f"{GOOD} of the file" not in plain.stdout:
        pytest.skip(f"the loop device reads the lost blocks without an error: {plain.stdout[-200:]}")
    assert plain.returncode == code and str(GOOD) in plain.stdout, (plain.stdout, plain.stderr)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
