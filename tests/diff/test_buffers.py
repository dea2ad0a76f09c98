# SPDX-License-Identifier: Apache-2.0
"""Pinned buffers that a program frees and allocates again.

`hidden`: a mapping that the library keeps after a free is in no later child. Natively it would be unmapped. Relatives: a
block that a child has already (`inherited`), a keepalive that no block has joined yet (unit test pinned_cache), and
mappings of larger buffers. `beside`: a block of 1 to 2 MiB shares its mapping with small blocks, so that its bytes, flags
and protection depend on them. Relatives: blocks with other flags, and blocks from before the engine was loaded."""

import json

import pytest
from conftest import APPS

SERVED = {"GPUFEED_STAGE_THREADS": 4}


@pytest.mark.parametrize("name", ["zero", "inherited", "hidden", "beside", "attributes", "forks", "handler", "guarded"])
def test_as_natively(run, name):
    plain, ours = run.both(APPS / "buffers", name, sim=True, **SERVED)
    assert (plain.returncode, plain.stdout[-5:]) == (0, "done\n"), plain.stdout
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


def pinned_memory(run, tmp_path, **environment):
    report = tmp_path / "report.json"
    done = run(APPS / "buffers", "zero", sim=True, GPUFEED_REPORT=report, **SERVED, **environment)
    assert done.returncode == 0, done.stdout
    return json.loads(report.read_text())["transfers"]["pinned_memory"]


def test_buffers_are_kept(run, tmp_path):
    """The library serves each size from its second buffer on, and 32 MiB always. One size shares its mapping
    with small blocks. Freed buffers stay within the limit."""
    found = pinned_memory(run, tmp_path)
    assert found["large"]["calls"] == 4 * 6 - 3
    assert 0 < found["cached_bytes"] <= 64 << 20


def test_none_is_kept_without_a_cache(run, tmp_path):
    found = pinned_memory(run, tmp_path, GPUFEED_PIN_CACHE=0)
    assert found["large"]["calls"] == 6  # of 32 MiB
    assert found["cached_bytes"] == 0


def test_little_is_kept_with_a_small_cache(run, tmp_path):
    assert pinned_memory(run, tmp_path, GPUFEED_PIN_CACHE=4 << 20)["cached_bytes"] <= 4 << 20
