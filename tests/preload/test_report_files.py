# SPDX-License-Identifier: Apache-2.0
"""Files that `gpufeed report` writes: the page, the trace, the metrics."""

import html.parser
import json
import os
import re

import pytest

from conftest import COMMAND, SOURCE
from test_report_answer import ANSWER, LOG, STARTED, copied, end, gpu_time, line, marks, process, report, stall


@pytest.fixture
def written(run, tmp_path):
    """Writes these texts into a folder, and returns the text of the file that the flag makes of them."""
    def call(flag, *texts, flags=()):
        (tmp_path / "job").mkdir(exist_ok=True)
        for index, text in enumerate(texts):
            (tmp_path / "job" / f"file{index}").write_text(text if isinstance(text, str) else json.dumps(text, indent=2) + "\n")
        path = tmp_path / "written"
        done = run(COMMAND, "report", tmp_path / "job", f"--{flag}={path}", *flags, preload=False, TZ="UTC")
        assert (done.returncode, done.stderr, done.stdout) == (0, "", f"wrote {path}\n"), done
        assert os.listdir(tmp_path).count("written") == 1 and len(os.listdir(tmp_path)) == 2
        return path.read_text(encoding="utf-8")
    return call


class Page(html.parser.HTMLParser):
    """The elements of a page that leads nowhere else."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.labels, self.data, self.buttons = [], set(), 0, "", 0
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not {"src", "srcset", "action", "data", "poster", "background"} & set(attrs), attrs
        assert attrs.get("href", "#").startswith("#") and tag not in ("link", "iframe", "object", "embed", "base")
        self.ids.add(attrs.get("id"))
        self.labels += "aria-label" in attrs or "aria-labelledby" in attrs
        self.buttons += tag == "button"
        if tag not in ("meta", "br"):
            self.open.append((tag, attrs.get("id")))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += data


def test_page_is_whole_and_makes_no_requests(written):
    way = {"staged": copied(40, 8 << 20, 0.02)}
    samples = [{"heap": {"bytes": 3, "by_node": {"0": 1, "1": 2}}}]
    options = {"GPUFEED": {"value": "observe", "origin": "environment"}, "GPUFEED_LOG": {"value": "x", "origin": "default"}}
    text = written("html", LOG, report(9, 2, to_device=way, samples=samples, options=options,
                                              gpu_time=gpu_time({"empty": 3, "queued": 1, "copying": 0}, {"data": 3})))
    assert not re.search(r"https?:|//\w|@import|url\(", text) and "default-src 'none'" in text
    page = Page(text)
    assert {"verdict", "gpu", "steps", "timeline", "places", "tables", "lengths", "copies", "ranks", "locality", "settings"} <= page.ids
    assert page.labels >= 10 and page.buttons >= 6 and "prefers-color-scheme: dark" in text
    data = json.loads(page.data)
    assert ANSWER.errors(data["answer"]) == [] and data["stalls"] == 3
    assert [event[2] for event in data["events"]] == [4000, 2000, 1000]
    assert [data["texts"][event[4]] for event in data["events"]] == ["train.py:4 in load"] * 2 + ["train.py:9 in collate"]
    assert data["events"][0][1] == pytest.approx(10 - 0.004, abs=1e-3)
    assert sum(us for lane in data["lanes"] for _, us in lane["bins"]) == 7000 == data["tree"]["us"]
    assert data["gpu"] == {"devices": 1, "s": 4, "states": [["nothing to do", 0.75], ["other work", 0.25]], "causes": [["waiting for data", 0.75]]}
    assert data["locality"] == [{"name": "rank 2", "kind": "heap", "by_node": {"0": 1, "1": 2}}]
    assert data["settings"] == [{"name": "GPUFEED", "value": "observe", "origin": "environment", "count": 1}]
    root = data["tree"]["children"][0]
    assert root["name"] == "train.py:99 in <module>" and {child["name"]: child["us"] for child in root["children"]} == \
        {"train.py:4 in load": 6000, "train.py:9 in collate": 1000}
    assert [row[1:] for row in data["lengths"]] == [[1, 1000], [1, 2000], [1, 4000]]


def test_page_of_many_stalls_keeps_the_longest_and_sums_the_others(written):
    page = Page(written("html", process() + "".join(stall(at / 100, 1000 + at, tid=at % 300) for at in range(4000)) + end(40)))
    data = json.loads(page.data)
    assert len(data["events"]) == 1000 and min(event[2] for event in data["events"]) == 4000
    assert len(data["lanes"]) == 128 and data["hidden"] == 172 and data["stalls"] == 4000
    assert data["tree"]["us"] == sum(1000 + at for at in range(4000))
    assert len(page.data) < 1 << 20


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "]]>", "a\u2028b\x1b", "&lt;"])
def test_page_keeps_names_as_text(written, name):
    log = process(host=name) + stall(1, 2000, name, thread=name, call=name,
                                     python=[{"file": f"/x/{name}", "line": 1, "function": name}])
    page = Page(written("html", log, report(9, 1, options={"A": {"value": name, "origin": "environment"}})))
    shown = re.sub("[\x00-\x1f\u2028]", lambda found: "?" * len(found[0].encode()), name)
    data = json.loads(page.data)
    assert data["causes"] == [shown] and data["settings"][0]["value"] == shown and shown in data["lanes"][0]["name"]


def test_page_of_nothing(written):
    data = json.loads(Page(written("html", "")).data)
    assert data["events"] == data["lanes"] == data["ranks"] == [] and data["answer"]["verdict"]


def test_files_that_cannot_be_written(run, tmp_path):
    (tmp_path / "log").write_text(LOG)
    done = run(COMMAND, "report", tmp_path / "log", "--html", tmp_path / "none" / "page", preload=False)
    assert done.returncode == 1 and "cannot write" in done.stderr and done.stderr.count("\n") == 1
    done = run(COMMAND, "report", tmp_path / "log", "--html=/dev/full", preload=False)
    assert done.returncode == 1 and "No space left" in done.stderr
    done = run(COMMAND, "report", tmp_path / "log", "--html=x", "--json", preload=False, cwd=tmp_path)
    assert done.returncode == 2 and not (tmp_path / "x").exists()
    done = run(COMMAND, "report", tmp_path / "log", "--html=-", preload=False)
    assert done.returncode == 0 and done.stdout.endswith("</html>\n")


def events(text, **wanted):
    return [event for event in json.loads(text)["traceEvents"] if all(event.get(key) == value for key, value in wanted.items())]


def test_trace_has_each_stall_on_its_thread(written):
    note = line(event="rebound", time=STARTED + 50.25, mono=150.25, pid=7, tid=7, text='"GPU 1"')
    text = written("perfetto", LOG + note + stall(60, 5000, tid=9, thread="loader", step=12))
    base = json.loads(text)["baseTimeNanoseconds"]
    slices = events(text, ph="X")
    assert [(one["name"], one["cat"], one["dur"], one["pid"], one["tid"]) for one in slices] == \
        [("free", "purge", 4000, 7, 7), ("free", "purge", 2000, 7, 7), ("free", "lock", 1000, 7, 7), ("free", "purge", 5000, 7, 9)]
    assert [base / 1e9 + one["ts"] / 1e6 for one in slices] == \
        pytest.approx([STARTED + at for at in (9.996, 19.998, 29.999, 59.995)], abs=1e-5)
    assert slices[3]["args"] == {"cause": "purge", "site": "train.py:4 in load", "bytes": 4096, "step": 12,
                                 "stack": "queue.py:1 in get\ntrain.py:4 in load\ntrain.py:99 in <module>"}
    assert [one["args"]["name"] for one in events(text, ph="M", name="thread_name")] == ["python3", "loader"]
    assert [one["args"]["text"] for one in events(text, ph="i")] == ['"GPU 1"']


def test_trace_has_steps_in_a_row_of_their_own(written):
    """PyTorch's slices and stalls of a thread must be nested; a step need not begin or end together with them."""
    text = written("perfetto", process() + marks(1, [(4, 0), (5, 0.25), (0, 0.75), (6, 1)], skipped=3) + marks(9, [(20, 0), (21, 0.5)]))
    base = json.loads(text)["baseTimeNanoseconds"]
    found = events(text, cat="gpufeed_step")
    assert {(one["name"], one["ph"], one.get("dur")) for one in found} == \
        {("step 4", "X", 250000), ("step 5", "X", 500000), ("step 6", "X", 0), ("step 20", "X", 500000), ("step 21", "B", None)}
    assert {one["name"]: base / 1e9 + one["ts"] / 1e6 for one in found} == \
        {f"step {number}": pytest.approx(STARTED + at, abs=1e-5) for number, at in ((4, 1), (5, 1.25), (6, 2), (20, 9), (21, 9.5))}
    row, = {one["tid"] for one in found}
    assert events(text, ph="M", name="thread_name", tid=row)[0]["args"]["name"] == "steps" and row > 1 << 22


def test_trace_of_several_hosts_has_an_id_for_each_process(written):
    text = written("perfetto", *(process(7, rank, f"host{rank}") + stall(1, 2000) for rank in range(3)))
    assert len({one["pid"] for one in events(text, ph="X")}) == 3 and 7 in {one["pid"] for one in events(text, ph="X")}


@pytest.mark.parametrize("base", [None, 999999000000000000])
@pytest.mark.parametrize("others", [[], [{"ph": "X", "name": "step", "pid": 7, "tid": 7, "dur": 5000.0}]])
def test_trace_with_that_of_pytorch_on_one_clock(written, tmp_path, base, others):
    torch = tmp_path / "job" / "torch.trace"
    torch.parent.mkdir()
    mark = STARTED + 9.995
    content = {"schemaVersion": 1, "traceEvents": [dict(one, ts=mark * 1e6 - (base or 0) / 1e3) for one in others], "traceName": "x]"}
    torch.write_text(json.dumps({"baseTimeNanoseconds": base, **content} if base else content))
    text = written("perfetto", LOG, flags=["--with", torch])
    merged = json.loads(text)
    assert merged.get("baseTimeNanoseconds") == base and merged["traceName"] == "x]"
    assert len(events(text, ph="X")) == 3 + len(others)
    free = events(text, name="free")[0]
    for step in events(text, name="step"):
        assert step["ts"] <= free["ts"] and free["ts"] + free["dur"] <= step["ts"] + step["dur"] + 1000


@pytest.mark.parametrize("content, what", [(b"x", "is not a trace"), (b"", "is not a trace"), (b"\x1f\x8b\x08", "is compressed"),
                                           (b'{"traceEvents":[{"a', "is not a trace"), (None, "No such file")])
def test_traces_that_cannot_be_merged(run, tmp_path, content, what):
    (tmp_path / "log").write_text(LOG)
    if content is not None:
        (tmp_path / "torch").write_bytes(content)
    done = run(COMMAND, "report", "log", "--perfetto=out", "--with=torch", preload=False, cwd=tmp_path)
    assert done.returncode == 1 and what in done.stderr and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()
    assert run(COMMAND, "report", "log", "--with=torch", preload=False, cwd=tmp_path).returncode == 2
    assert run(COMMAND, "report", "log", "--html=x", "--perfetto=x", preload=False, cwd=tmp_path).returncode == 2


def samples(text):
    """The samples by name and labels; a parser of Prometheus must accept the text."""
    parser = pytest.importorskip("prometheus_client.parser", reason="python3-prometheus-client is not installed")
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge"), family
        for sample in family.samples:
            assert sample.timestamp is None and {"rank", "pid"} <= set(sample.labels)
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def test_metrics(written):
    way = {"staged": copied(40, 8 << 20, 0.02)}
    first = process(7, 3, 'a"b\\c') + stall(1, 2000) + stall(2, 3000) + stall(3, 1000, "lock")
    delays = line(event="threads", time=STARTED + 4, mono=104, pid=7, tid=7, threads=[{"tid": 7, "delay_ms": 1500}])
    text = written("prometheus", first + delays, report(7, 3, to_device=way, device_bytes=77),
                   report(8, 4, "running", stalls={"count": 2, "us": 500, "causes": {"gpu": {"count": 2, "us": 500}}}))
    found = samples(text)
    host = ("host", 'a"b\\c')
    assert found["gpufeed_stalls_total", ("cause", "purge"), host, ("pid", "7"), ("rank", "3")] == 2
    assert found["gpufeed_stall_seconds_total", ("cause", "purge"), host, ("pid", "7"), ("rank", "3")] == pytest.approx(0.005)
    assert found["gpufeed_stall_seconds_total", ("cause", "gpu"), ("pid", "8"), ("rank", "4")] == pytest.approx(0.0005)
    assert found["gpufeed_run_queue_delay_seconds_total", host, ("pid", "7"), ("rank", "3")] == 1.5
    assert found["gpufeed_copied_bytes_total", ("direction", "to_device"), host, ("pid", "7"), ("rank", "3"), ("way", "staged")] == 40 * (8 << 20)
    assert found["gpufeed_device_memory_allocated_bytes_total", host, ("pid", "7"), ("rank", "3")] == 77
    assert [found["gpufeed_ended", *labels] for labels in ((host, ("pid", "7"), ("rank", "3")), (("pid", "8"), ("rank", "4")))] == [1, 0]


def test_metrics_of_a_process_that_executed_another_program_are_one(written):
    found = samples(written("prometheus", process() + stall(1, 2000) + process(at=2) + stall(3, 5000)))
    assert found["gpufeed_stalls_total", ("cause", "purge"), ("host", "one"), ("pid", "7"), ("rank", "")] == 2


def test_metrics_of_nothing(written):
    assert samples(written("prometheus", "")) == {}


def test_each_metric_is_documented(written):
    text = written("prometheus", LOG, report())
    told = (SOURCE / "docs" / "reading.md").read_text(encoding="utf-8")
    named = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)
    assert len(named) >= 10
    for name, kind in named:
        assert re.search(rf"^\|.*`{name}`.*\| {kind} \|", told, re.M), name
