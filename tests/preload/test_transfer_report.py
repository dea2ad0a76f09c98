# SPDX-License-Identifier: Apache-2.0
"""Copies and pinned memory in the report, the summary and the log: the figures match what happened.
"""

import json
import re

import pytest

from conftest import SOURCE
from schemakit import read_log, read_report
from test_engine import PYTHON, feed, machine  # noqa: F401

MIB = 1 << 20
EAGER = {"GPUFEED_STAGE_MIN": "1M", "GPUFEED_STAGE_THREADS": 4}

# Copies of three kinds: `large` pageable ones in both directions, some from pinned memory, and
# small ones.
PROGRAM = """
    from ctypes import byref, c_size_t, c_uint64, c_void_p, create_string_buffer
    start()
    cuda = feeder.libcuda
    d, pinned, stream = c_uint64(), c_void_p(), c_void_p()
    check(cuda.cuMemAlloc_v2(byref(d), c_size_t(8 << 20)))
    check(cuda.cuStreamCreate(byref(stream), 1))
    check(cuda.cuMemHostAlloc(byref(pinned), c_size_t(4 << 20), 0))
    source = create_string_buffer(6 << 20)
    def to(n, from_=source, asynchronous=False):
        if asynchronous:
            check(cuda.cuMemcpyHtoDAsync_v2(d, from_, c_size_t(n), stream))
        else:
            check(cuda.cuMemcpyHtoD_v2(d, from_, c_size_t(n)))
    def back(n, into=source):
        check(cuda.cuMemcpyDtoH_v2(into, d, c_size_t(n)))
    def warm(n, until='"ring"'):
        "Copies until the log tells of the ring, which is made ready beside the program; says how many that took."
        log, count = os.environ["GPUFEED_LOG"], 0
        while count < 3000 and not (os.path.exists(log) and until in open(log).read()):
            to(n)
            count += 1
            time.sleep(0.005)
        open("warmed", "w").write(str(count))
"""


@pytest.fixture
def report(feed, tmp_path):  # noqa: F811
    """report(script) -> the report's section on transfers, the summary's line, the log's events."""
    def call(script, **env):
        path, log = tmp_path / "r.json", tmp_path / "l.json"
        found = feed(PROGRAM + script, GPUFEED_REPORT=path, GPUFEED_LOG=log, **{**EAGER, **env})
        line = re.search(r"^gpufeed: (copied .*)$", found.stderr, re.M)
        events = read_log(log)
        return read_report(path), line and line.group(1), events
    return call


def both(ways):
    return ways["staged"]["bytes"] + ways["driver"]["bytes"]


def test_bytes_are_all_there(report, tmp_path):
    found, line, events = report("""
    warm(6 << 20)
    for i in range(10):
        to(6 << 20)
        to(4 << 20, asynchronous=True)
        back(6 << 20)
    to(4 << 20, pinned)
    back(4 << 20, pinned)
    for i in range(7):
        to(1000)
    check(cuda.cuCtxSynchronize())
    """)
    transfers, warmed = found["transfers"], int((tmp_path / "warmed").read_text())
    there, here = transfers["to_device"], transfers["from_device"]
    assert both(there) == (100 + 6 * warmed) * MIB and both(here) == 60 * MIB
    assert there["staged"]["calls"] + there["driver"]["calls"] == 20 + warmed
    # while the ring is busy, some copies are left to the driver
    assert there["staged"]["calls"] >= 5, json.dumps(transfers)
    assert here["staged"]["calls"] >= 5
    assert there["inaccessible_bytes"] == 0
    assert there["driver"]["calls"] == sum(why["calls"] for why in there["reasons"].values())
    assert there["driver"]["bytes"] == sum(why["bytes"] for why in there["reasons"].values())
    assert (there["pinned"]["calls"], there["pinned"]["bytes"]) == (1, 4 * MIB)
    assert (here["pinned"]["calls"], here["pinned"]["bytes"]) == (1, 4 * MIB)
    assert transfers["small"] == {"copies": 7, "bytes": 7000}
    assert transfers["unsupported"] == {"copies": 0, "bytes": 0}
    assert transfers["by_function"] == {
        "cuMemcpyHtoD_v2": {"copies": 18 + warmed, "bytes": (64 + 6 * warmed) * MIB + 7000},
        "cuMemcpyHtoDAsync_v2": {"copies": 10, "bytes": 40 * MIB},
        "cuMemcpyDtoH_v2": {"copies": 11, "bytes": 64 * MIB}}
    assert transfers["min_bytes"] == MIB and transfers["staging_off"] is None
    ring = transfers["ring"]
    assert ring["rings"] == 1 and ring["bytes"] == ring["peak_bytes"] >= 2 * MIB
    assert ring["limit_bytes"] >= ring["bytes"] and ring["grown"] >= 1
    assert sum(ring["by_node"].values()) == ring["bytes"]
    assert transfers["helpers"] == 3
    assert len([event for event in events if event["event"] == "ring"]) == ring["grown"]
    assert there["staged"]["duration_s"] > 0 and there["staged"]["gb_per_s"] > 0
    assert transfers["pinning_at_source"]["pinned_gb_per_s"] > 0
    megabytes = there["staged"]["bytes"] // MIB
    assert line.startswith(f"copied to the GPU: {megabytes} MiB staged at ")
    assert "4 MiB from or to pinned memory" in line and "copied from the GPU: " in line


def test_reasons_are_told(report):
    found, line, _ = report("""
    for i in range(5):
        to(3 << 20)
    check(cuda.cuStreamBeginCapture_v2(stream, 2))
    cuda.cuMemcpyHtoDAsync_v2(d, source, c_size_t(3 << 20), stream)
    """)
    reasons = found["transfers"]["to_device"]["reasons"]
    assert reasons["capture"]["calls"] == 1 and reasons["capture"]["bytes"] == 3 * MIB
    assert "the stream is being captured: 1" in line


def test_turned_off_is_an_event(report, tmp_path):
    found, _, events = report("""
    warm(6 << 20, until='"left_to_driver"')
    to(6 << 20)
    """, SIM_FAULT="cuMemHostRegister_v2:1+:999", GPUFEED_PIN="off")
    [event] = [event for event in found["events"] if event["event"] == "left_to_driver"]
    assert "copies are left to the driver" in event["text"] and "cuMemHostRegister" in event["text"]
    assert [e["text"] for e in events if e["event"] == "left_to_driver"] == [event["text"]]
    assert both(found["transfers"]["to_device"]) == 6 * MIB * (int((tmp_path / "warmed").read_text()) + 1)
    assert found["transfers"]["to_device"]["reasons"]["off"]["calls"] >= 1


@pytest.mark.parametrize("env, off, least", [
    ({"GPUFEED_STAGE": "off"}, "by option", None), ({"GPUFEED": "observe"}, "observing only", MIB)])
def test_what_is_not_staged(report, env, off, least):
    found, line, events = report("    to(3 << 20)\n    to(4 << 20, pinned)\n", **env)
    transfers = found["transfers"]
    assert transfers["staging_off"] == off and transfers["min_bytes"] == least
    assert transfers["ring"]["peak_bytes"] == 0 and transfers["helpers"] == 0
    assert not [event for event in events if event["event"] == "ring"]
    if least is None:
        assert line is None and transfers["to_device"]["driver"]["calls"] == 0
        return
    assert transfers["to_device"]["reasons"]["off"]["bytes"] == 3 * MIB
    assert transfers["to_device"]["pinned"]["bytes"] == 4 * MIB
    assert line.startswith("copied to the GPU: 4 MiB from or to pinned memory, 3 MiB by the driver")


def test_none_of_it(report):
    found, line, _ = report("    to(3 << 20)\n", GPUFEED_STAGE="off", GPUFEED_PIN="off")
    assert found["transfers"] is None and line is None
    assert found["hooks"]["cuMemcpyHtoD_v2"] == 1


def test_the_example(feed, run, tmp_path):  # noqa: F811
    """Checks the statements of docs/summary.md. The checksum of the loop is the same if copies are staged or not,
    from pageable or pinned memory."""
    def feeding(*flags, **env):
        found = run(PYTHON, SOURCE / "examples" / "feed.py", "--batches", 8, "--batch-mib", 8, *flags,
                    sim=True, GPUFEED_STAGE_THREADS=4, GPUFEED_REPORT=tmp_path / "r.json", **env)
        assert found.returncode == 0, found.stderr
        report = read_report(tmp_path / "r.json")["transfers"]
        return found.stdout.splitlines()[-1], report
    staged = feed(PROGRAM + f"""
    import runpy, sys
    warm(6 << 20)
    sys.argv[1:] = ["--batches", "8", "--batch-mib", "8"]
    runpy.run_path("{SOURCE / 'examples' / 'feed.py'}", run_name="__main__")
    """, GPUFEED_REPORT=tmp_path / "w.json", GPUFEED_LOG=tmp_path / "l.json", **EAGER)
    checksum = staged.stdout.splitlines()[-1]
    staged = read_report(tmp_path / "w.json")["transfers"]
    warmed = 6 * MIB * int((tmp_path / "warmed").read_text())
    assert both(staged["to_device"]) == 64 * MIB + warmed and both(staged["from_device"]) == 64 * MIB
    assert staged["from_device"]["staged"]["bytes"] > 0  # warm() copied to the device only
    again, pinned = feeding("--pin")
    assert again == checksum and pinned["to_device"]["pinned"]["bytes"] == 64 * MIB
    _, pinned = feeding("--pin", "--batch-mib", 32, "--batches", 2)
    assert pinned["pinned_memory"]["large"]["bytes"] == 64 * MIB
    again, off = feeding(GPUFEED_STAGE="off")
    assert again == checksum and off["staging_off"] == "by option"
