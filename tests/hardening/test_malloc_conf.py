# SPDX-License-Identifier: Apache-2.0
"""MALLOC_CONF may be meant for another jemalloc. The library prints nothing, no process fails, and the settings that
this jemalloc knows apply."""

import json
import os
import subprocess

import pytest

FOREIGN = [
    "unknown:1",
    "abort_conf:true,unknown:1",
    "unknown:1,abort_conf:true",
    "abort_conf:true",
    "confirm_conf:true,narenas:2",
    "narenas:99999999999999999999",
    "thp:maybe,narenas:x",
    "no colon",
    "narenas:2,",
    ",",
    ":",
    "hpa:true,abort_conf:true",
    "abort_conf:true," + "unknown:1," * 300 + "narenas:2",
    "x" * 5000,
]


@pytest.mark.parametrize("conf", FOREIGN, ids=range(len(FOREIGN)))
def test_silent(run, conf):
    run.alike("bash", "-c", "echo \"$(seq 3)\" | sort; true", MALLOC_CONF=conf)


@pytest.mark.parametrize("conf", ["junk:true", "zero:true"])
def test_filled_blocks(run, conf):
    """jemalloc fills the whole size class, which is larger than the pages that a large block needs."""
    run.alike("python3", "-c", "x = [bytearray(5000000 + i) for i in range(9)]; y = b'x' * 9000001; print(len(y))", MALLOC_CONF=conf)


def report(run, compile_here, tmp_path, conf):
    program = compile_here("heap_user.c", "-fno-builtin", "-rdynamic", "-pthread")
    ended = run(program, "gpu", sim=True, MALLOC_CONF=conf, GPUFEED_REPORT=tmp_path / "report")
    assert (ended.returncode, ended.stderr) == (0, "")
    heap = json.loads((tmp_path / "report").read_text())["heap"]
    return heap["ignored_conf"], {row["name"]: (row["value"], row["from"]) for row in heap["settings"]}


def test_known_settings_hold(run, compile_here, tmp_path):
    ignored, settings = report(run, compile_here, tmp_path,
                               "abort_conf:true,narenas:3,unknown:1,dirty_decay_ms:77,thp:maybe")
    assert ignored == "Invalid conf pair: unknown:1; Invalid conf value: thp:maybe"
    assert settings["narenas"] == ("3", "MALLOC_CONF") and settings["dirty_decay_ms"] == ("77", "MALLOC_CONF")


def test_nothing_ignored(run, compile_here, tmp_path):
    ignored, settings = report(run, compile_here, tmp_path, "narenas:3")
    assert ignored is None and settings["narenas"] == ("3", "MALLOC_CONF")


def test_link(run):
    """/etc/malloc.conf is a symbolic link whose text is the setting."""
    def hide(*command):
        return ["unshare", "-m", "sh", "-c", 'mkdir -p "$0" && cp -a /etc/. "$0" && ln -sfn "abort_conf:true,unknown:1" "$0/malloc.conf"'
                ' && mount --bind "$0" /etc && exec "$@"', f"/tmp/gpufeed-etc-{os.getpid()}", *command]
    try:
        if os.geteuid() or subprocess.run(hide("true"), capture_output=True, check=False).returncode:
            pytest.skip("cannot replace /etc here")
        ours = run(*hide("env", f"LD_PRELOAD={run.env()['LD_PRELOAD']}", "bash", "-c", "echo well"), preload=False)
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, "well\n", "")
    finally:
        subprocess.run(["rm", "-rf", f"/tmp/gpufeed-etc-{os.getpid()}"], check=True)
