# SPDX-License-Identifier: Apache-2.0
"""Copies of a library like safetensors into pinned memory: several threads share them, and the program sees no
difference."""

import json

import pytest
from conftest import APPS, PRELOAD

LIBRARY = APPS / "_safetensors_rust.abi3.so"
HELPED = {"GPUFEED_STAGE_THREADS": 4, "KIT_ALARM": 100}


def same(run, tmp_path, what, *how, code=0, **environment):
    plain, ours = run.both(APPS / "loads", what, tmp_path, LIBRARY, *how, sim=True, **{**HELPED, **environment})
    assert plain.returncode == code, (plain.returncode, plain.stdout)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


def counts(run, tmp_path, what="bytes", **environment):
    report = tmp_path / "report.json"
    done = run(APPS / "loads", what, tmp_path, LIBRARY, sim=True, GPUFEED_REPORT=report, **{**HELPED, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text())["transfers"]["parallel_memcpy"]


@pytest.mark.parametrize("what", ["bytes", "pageable", "left", "barrier", "forked", "threads", "protected", "old-kernel", "handler",
                                  "freed", "registered"])
def test_as_natively(run, tmp_path, what):
    same(run, tmp_path, what)


def test_a_handler_copies_within_a_call_of_the_driver(run, tmp_path):
    same(run, tmp_path, "within", SIM_DELAY="cuMemcpyHtoD_v2:100000", KIT_ALARM=20)


@pytest.mark.parametrize("how, code", [((), -7), (("catch",), 57)], ids=["killed", "caught"])
def test_behind_the_end_as_natively(run, tmp_path, how, code):
    """A copy beyond the end of the file raises SIGBUS on the same thread as without the library."""
    same(run, tmp_path, "truncated", *how, code=code)


def test_several_threads_share_the_copies(run, tmp_path):
    counted = counts(run, tmp_path)
    assert counted["libraries"] == 1 and counted["calls"] >= 30, counted
    assert counted["bytes"] >= 500 << 20, counted


@pytest.mark.parametrize("environment", [{"GPUFEED_PARALLEL_MEMCPY": "off"}, {"GPUFEED": "observe"}],
                         ids=["off", "observe"])
def test_option_off(run, tmp_path, environment):
    assert counts(run, tmp_path, **environment) == {"libraries": 0, "calls": 0, "bytes": 0}


def test_registered_memory_is_pinned_until_it_is_unregistered(run, tmp_path):
    counted = counts(run, tmp_path, "registered")
    assert 20 <= counted["calls"] <= 30, counted


def test_a_child_and_ordinary_memory_are_not_counted(run, tmp_path):
    """Only the ten copies before them are counted, or fewer if the pointer was replaced late."""
    for what in "none", "pageable", "forked", "freed":
        counted = counts(run, tmp_path, what)
        assert counted["libraries"] <= 1 and counted["calls"] <= 10 and counted["bytes"] <= 80 << 20, (what, counted)


def test_a_page_that_cannot_be_written_is_kept(run, tmp_path):
    """The kernel refuses to make the page of the pointer writable."""
    assert counts(run, tmp_path, "protected") == {"libraries": 0, "calls": 0, "bytes": 0}


def test_no_pointer_is_replaced_on_a_kernel_before_5_14(run, tmp_path):
    """Such a kernel cannot tell whether the loader still writes to the pointer's page."""
    assert counts(run, tmp_path, "old-kernel") == {"libraries": 0, "calls": 0, "bytes": 0}


def test_another_interposer_is_kept(run, tmp_path):
    """If the pointer does not lead to libc, it stays."""
    counted = counts(run, tmp_path, LD_PRELOAD=f"{PRELOAD}:{APPS / 'libother_memcpy.so'}")
    assert counted == {"libraries": 0, "calls": 0, "bytes": 0}
