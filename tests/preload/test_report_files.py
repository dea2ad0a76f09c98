# SPDX-License-Identifier: Apache-2.0
"""Files that `gpufeed report` writes: the page, the trace, the metrics."""

import html.parser
import importlib.util
import json
import math
import os
import re
import subprocess

import pytest

from conftest import COMMAND, SOURCE
from reportkit import ANSWER, DOCTOR, LOG, STARTED, activity, copied, end, gpu_time, line, marks, process, report, stall

_spec = importlib.util.spec_from_file_location("page", SOURCE / "bench" / "page.py")
page_bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_bench)


@pytest.fixture
def written(run, tmp_path):
    """Writes these texts into a folder, runs `gpufeed report` with the flag on it, and returns the text of the
    written file."""
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
    """Parses a page, and checks that it loads and links nothing outside itself."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.data, self.buttons = [], set(), "", 0
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not {"src", "srcset", "action", "data", "poster", "background"} & set(attrs), attrs
        assert attrs.get("href", "#").startswith("#") and tag not in ("link", "iframe", "object", "embed", "base")
        self.ids.add(attrs.get("id"))
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
    time = gpu_time({"empty": 3, "queued": 1, "copying": 0}, {"data": 3})
    time["devices"][0]["lines"] = [{"cause": "data", "file": "x/train.py", "line": 4, "function": "load", "s": 3}]
    samples = [{"heap": {"bytes": 3, "by_node": {"0": 1, "1": 2}}}]
    options = {"GPUFEED": {"value": "observe", "origin": "environment"}, "GPUFEED_LOG": {"value": "x", "origin": "default"}}
    text = written("html", LOG, report(9, 2, to_device=way, samples=samples, options=options,
                                              gpu_time=time))
    assert not re.search(r"https?:|//\w|@import|url\(", text) and "default-src 'none'" in text
    page = Page(text)
    assert {"verdict", "gpu", "steps", "timeline", "places", "tables", "lengths", "copies", "ranks", "locality", "settings", "doctor"} <= page.ids
    assert page.buttons >= 6 and "prefers-color-scheme: dark" in text
    data = json.loads(page.data)
    assert ANSWER.errors(data["answer"]) == [] and data["stalls"] == 3
    assert [event[2] for event in data["events"]] == [4000, 2000, 1000]
    assert [data["texts"][event[4]] for event in data["events"]] == ["train.py:4 in load"] * 2 + ["train.py:9 in collate"]
    assert data["events"][0][1] == pytest.approx(10 - 0.004, abs=1e-3)
    assert sum(us for lane in data["lanes"] for _, us in lane.get("bins", [])) == 7000
    assert data["gpu"] == {"devices": 1, "s": 4, "states": [["empty", "nothing to do", 0.75], ["queued", "other work", 0.25]],
                           "causes": [["data", "waiting for data", 0.75, "train.py:4 in load"]]}
    assert data["locality"] == [{"name": "rank 2", "kind": "heap", "by_node": {"0": 1, "1": 2}}]
    assert data["settings"] == [{"name": "GPUFEED", "value": "observe", "origin": "environment", "count": 1}]
    assert [[data["stalled"]["stacks"][stack], us] for _, stack, us in data["stalled"]["rows"]] == [
        ["train.py:99 in <module>;train.py:4 in load;queue.py:1 in get;purge", 6000], ["train.py:99 in <module>;train.py:9 in collate;queue.py:1 in get;lock", 1000]]
    assert [row[1:] for row in data["lengths"]] == [[1, 1000], [1, 2000], [1, 4000]]


def test_page_has_time_without_work_by_stack(written):
    idle = {"devices": [{"paths": [{"cause": "sleep", "path": "a.py:main;a.py:nap", "s": 2}, {"cause": "gc", "path": "a.py:main", "s": 0}]}]}
    data = json.loads(Page(written("html", report(8, 0, gpu_time=idle), report(9, 1, gpu_time=idle))).data)
    assert data["idle"]["stacks"][0] == "a.py:main;a.py:nap;sleep" and data["idle"]["rows"] == [[0, 0, 2000000], [1, 0, 2000000]]


def test_page_of_many_stalls_keeps_the_longest_and_sums_the_others(written):
    page = Page(written("html", process() + "".join(stall(at / 100, 1000 + at, tid=at % 300) for at in range(4000)) + end(40)))
    data = json.loads(page.data)
    assert len(data["events"]) == 1000 and min(event[2] for event in data["events"]) == 4000
    assert len(data["lanes"]) == 128 and data["hidden"] == 172 and data["stalls"] == 4000
    assert sum(us for _, _, us in data["stalled"]["rows"]) == sum(1000 + at for at in range(4000))
    assert len(page.data) < 1 << 20


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "]]>", "a\u2028b\x1b", "&lt;"])
def test_page_keeps_names_as_text(written, name):
    log = process(host=name) + stall(1, 2000, name, thread=name, call=name,
                                     python=[{"file": f"/x/{name}", "line": 1, "function": name}])
    page = Page(written("html", log, report(9, 1, options={"A": {"value": name, "origin": "environment"}})))
    shown = re.sub("[\x00-\x1f\u2028]", lambda found: "?" * len(found[0].encode()), name)
    data = json.loads(page.data)
    assert data["causes"] == [shown] and data["settings"][0]["value"] == shown and shown in data["lanes"][0]["name"]


def rank_log(pid, rank, *lines):
    return process(pid, rank) + "".join(lines) + end(10, pid)


def test_page_has_each_rank_over_time(written):
    first = rank_log(8, 1, activity(2, 8, 2, {"empty": 1500, "queued": 500}, [("to_device", "staged", 100), ("to_device", "pinned", 50)],
                                    [(1.5, 7000, 100, "to_device", 9)]), stall(3, 2000, pid=8))
    other = rank_log(7, 0, activity(4, 7, 2, {"queued": 2000}), activity(5, 7, 1, None, [("from_device", "driver", 70)]),
                     marks(1, [(1, 0), (2, 0.5), (3, 2)]))
    data = json.loads(Page(written("html", first, other)).data)
    assert [(lane["name"], lane["kind"]) for lane in data["lanes"]] == \
        [("rank 0: GPU", "gpu"), ("rank 0: copies", "copies"), ("rank 0: steps", "steps"), ("rank 1: GPU", "gpu"), ("rank 1: copies", "copies"),
         ("thread 9, rank 1", "thread"), ("python3 8, rank 1", "thread")]
    lanes = {lane["name"]: lane for lane in data["lanes"]}
    assert [lane["of"] for lane in data["lanes"]] == ["rank 0"] * 3 + ["rank 1"] * 4
    assert lanes["rank 1: GPU"]["spans"] == [pytest.approx([0, 2, 750, 0, 0, 250, 0], abs=1e-6)]
    assert lanes["rank 1: copies"]["spans"] == [pytest.approx([0, 2, 150, 0], abs=1e-6)]
    assert lanes["rank 0: GPU"]["spans"] == [pytest.approx([2, 4, 0, 0, 0, 1000, 0], abs=1e-6), pytest.approx([4, 5, 0, 0, 0, 0, 0], abs=1e-6)]
    assert lanes["rank 0: copies"]["spans"] == [pytest.approx([2, 4, 0, 0], abs=1e-6), pytest.approx([4, 5, 0, 70], abs=1e-6)]
    assert data["copyEvents"] == [[5, pytest.approx(1.5, abs=1e-6), 7000, 100, True, "staged", 9]] and data["copyCount"] == 1
    assert data["stepEvents"] == [[2, pytest.approx(1.5, abs=1e-6), 1.5, 2], [2, pytest.approx(1, abs=1e-6), 0.5, 1]]
    only = json.loads(Page(written("html", first, other, flags=["--rank=1"])).data)
    assert [lane["name"] for lane in only["lanes"]] == ["rank 1: GPU", "rank 1: copies", "thread 9, rank 1", "python3 8, rank 1"]
    late = json.loads(Page(written("html", first, other, flags=["--since=6s"])).data)
    assert [(lane["name"], len(lane["spans"])) for lane in late["lanes"]] == [("rank 0: copies", 1)] and late["copyEvents"] == []


def test_page_of_a_long_job_joins_intervals(written):
    lines = "".join(activity(at + 1, 7, 1, {"empty": 250, "copying": 750}, [("to_device", "staged", at)], [(at, 1000 + at, 8, "to_device", 7)])
                    for at in range(1700))
    lane, copies, thread = json.loads(Page(written("html", process() + lines)).data)["lanes"]
    assert 400 < len(lane["spans"]) <= 500 and all(span[2:] == [250, 750, 0, 0, 0] for span in lane["spans"]) and thread["bins"] == []
    assert sum(span[2] for span in copies["spans"]) == sum(range(1700))
    for before, span in zip(lane["spans"], lane["spans"][1:]):
        assert span[0] == pytest.approx(before[1])


def test_page_of_many_ranks_keeps_those_that_waited(written):
    logs = [rank_log(pid, pid - 100, activity(5, pid, 1, {"empty": pid, "queued": 1000 - pid})) for pid in range(100, 174)]
    data = json.loads(Page(written("html", *logs)).data)
    assert [lane["name"] for lane in data["lanes"]] == [f"rank {rank}: GPU" for rank in range(10, 74)] and data["hiddenProcesses"] == 10


@pytest.mark.parametrize("change", [
    {"interval_ms": -1}, {"interval_ms": "x"}, {"interval_ms": 10**18}, {"gpus": 1}, {"gpus": [[]]}, {"gpus": [{"empty_ms": -5}]},
    {"gpus": [{"empty_ms": 1e300}]}, {"copies": {}}, {"copies": [{"direction": 1, "bytes": "x"}]}, {"longest": [1]},
    {"longest": [{"start": -1e300, "us": -1, "bytes": -1, "direction": "to_device", "tid": 1 << 70}]}, {"time": None}, {"mono": "a"}])
def test_page_survives_impossible_activity(written, change):
    changed = line(**{**json.loads(activity(5, 7, 1, {"empty": 1000})), **change})
    data = json.loads(Page(written("html", process() + changed + end(10))).data)
    for lane in data["lanes"]:
        assert all(0 <= number < 1e12 for span in lane.get("spans", []) for number in span), lane


@pytest.mark.parametrize("doctor", [DOCTOR, json.dumps(DOCTOR) + "\n"], ids=["indented", "line"])
def test_page_has_the_doctors_findings(written, doctor):
    text = written("html", LOG, doctor)
    data = json.loads(Page(text).data)
    doctor, = data["doctors"]
    assert doctor["file"].endswith("job/file1") and doctor["well"] == 1
    assert doctor["rows"] == [["problem", "memlock", "little memory may be locked", "it is slow", "raise the limit"],
                              ["unknown", "thp", "cannot be read", "", ""]]
    assert data["answer"]["helps"][-1] == "doctor: little memory may be locked: raise the limit"
    assert data["answer"]["input"]["doctors"] == 1 and data["answer"]["input"]["foreign"] == 0


@pytest.mark.parametrize("text", ['{"schema": 2, "findings": [1]}', '{"schema": 2, "findings": {}}', '{"findings": []}',
                                  '{"schema": 2, "findings": [{"status": "ok"}]}'])
def test_other_files_are_no_findings(written, text):
    data = json.loads(Page(written("html", LOG, text + "\n")).data)
    assert data["doctors"] == [] and data["answer"]["input"]["doctors"] == 0


def test_page_in_a_browser(written, tmp_path, monkeypatch):
    """The page has no error and sends no request. The keyboard moves, zooms and shows descriptions, and the focus stays
    on a frame that is enlarged. Times are those of the command, not of the browser. The test needs Chromium, which CI
    does not install."""
    if not page_bench.browser():
        pytest.skip("no Chromium is installed")
    log = rank_log(7, 0, activity(4, 7, 2, {"empty": 500, "queued": 1500}, [("to_device", "staged", 1 << 20)], [(2.5, 7000, 1 << 20, "to_device", 7)]),
                   marks(1, [(1, 0), (2, 0.5), (0, 2)]), stall(3, 2000))
    (tmp_path / "page.html").write_text(written("html", log, report(7, 0, gpu_time={"devices": [{"paths": [{"cause": "sleep", "path": "a.py:main;a.py:nap", "s": 2}]}]}), DOCTOR), encoding="utf-8")
    script = """(() => {
      const told = () => document.getElementById("told").textContent, shown = () => document.getElementById("window").textContent, found = [shown()];
      const chart = document.getElementById("chart"), press = key => chart.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      press("ArrowDown"); found.push(told());
      press("ArrowDown"); found.push(told());
      press("+"); found.push(shown());
      press("Home"); found.push(shown());
      const texts = () => [...document.querySelectorAll("#icicle button")].map(button => button.textContent).join(), idle = texts();
      document.getElementById("icicle-stalls").click();
      const frames = [], icicle = document.getElementById("icicle"), focused = () => frames.push(document.activeElement.textContent);
      icicle.querySelector("[tabindex='0']").focus(); focused();
      for (const key of ["ArrowDown", "ArrowDown", "ArrowLeft", "ArrowDown", "ArrowUp"]) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
        focused();
      }
      document.activeElement.click(); focused();
      return [...found, document.getElementById("doctor").textContent, frames, icicle.querySelectorAll("[tabindex='0']").length, idle];
    })()"""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    found = page_bench.look(tmp_path / "page.html", script=script)
    assert (found["errors"], found["requests"]) == ([], []) and found["draw_s"] < 30
    whole, gpu, copies, zoomed, again, doctor, frames, stops, idle = found["value"]
    assert idle == "time without work,a.py:main,a.py:nap,sleep"
    assert whole.startswith("01:46:40 to 01:48:20 ")
    site = "train.py:4 in load"
    assert frames == ["all stalls", "train.py:99 in <module>", site, site, "queue.py:1 in get", site, site] and stops == 1
    assert whole == again != zoomed and "(100 s)" in whole and "(50 s)" in zoomed
    assert gpu.startswith("rank 0: GPU") and gpu.endswith("nothing to do 25.0 %, other work 75.0 %")
    assert copies.endswith("1 MiB to the GPU (512 KiB/s), 0 bytes from it (0 bytes/s)") and "memlock" in doctor


NARROW = """(() => {
  const all = query => [...document.querySelectorAll(query)], shade = node => getComputedStyle(node).backgroundColor;
  return {bars: all(".bar").map(bar => bar.getBoundingClientRect().width), wide: document.documentElement.scrollWidth,
    ticks: all("main, nav").some(node => node.innerText.includes("`")), code: all("#doctor code").length,
    links: all("nav a").map(link => document.querySelector(link.getAttribute("href")).textContent === link.textContent),
    titles: all("main h2").length, gpu: all("#gpu .bar").map(shade), legend: all("#legend .swatch").map(shade)};
})()"""
KEYS = """(() => {
  const chart = document.getElementById("chart"), icicle = document.getElementById("icicle"), tall = () => chart.clientHeight;
  const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})), heights = [tall()];
  for (const key of ["ArrowDown", "ArrowDown", "Enter", "ArrowDown", "Enter"]) { press(chart, key); heights.push(tall()); }
  const told = document.getElementById("told").textContent, names = [], root = () => names.push(icicle.firstChild.textContent);
  document.getElementById("fold").click();
  heights.push(tall());
  root(); icicle.children[2].click(); root(); press(icicle.firstChild, "Escape"); root();
  return {heights, told, names, last: shadeOf(icicle.lastChild), slept: shadeOf(document.querySelectorAll("#gpu .bars:last-child .bar")[0])};
  function shadeOf(node) { return getComputedStyle(node).backgroundColor; }
})()"""


def test_page_of_many_ranks_in_a_narrow_browser(written, tmp_path):
    """Bars are seen, each link leads to its heading, code has no backticks, a state or a cause has one color everywhere,
    and each rank has one row until Enter opens it."""
    if not page_bench.browser():
        pytest.skip("no Chromium is installed")
    logs = [rank_log(pid, pid - 10, activity(5, pid, 5, {"empty": 2000, "copying": 1000, "queued": 2000}, [("to_device", "staged", 1 << 20)]),
                     stall(3, 2000, pid=pid)) for pid in range(10, 22)]
    time = gpu_time({"empty": 2, "copying": 1, "queued": 2}, {"sleep": 2})
    time["devices"][0]["paths"] = [{"cause": "sleep", "path": "a.py:main;a.py:nap", "s": 2}]
    (tmp_path / "page.html").write_text(written("html", *logs, report(10, 0, gpu_time=time)), encoding="utf-8")
    found = page_bench.look(tmp_path / "page.html", script=NARROW, width=480)
    assert found["errors"] == []
    value = found["value"]
    assert value["wide"] == 480 and max(value["bars"]) > 150 and not value["ticks"] and value["code"] == 2
    assert all(value["links"]) and len(value["links"]) == value["titles"] >= 11
    assert set(value["gpu"][1:3]) <= set(value["legend"]), value
    value = page_bench.look(tmp_path / "page.html", script=KEYS)["value"]
    assert [tall - value["heights"][0] for tall in value["heights"]] == [0, 0, 0, 36, 36, 0, 12 * 36], value
    assert value["told"].startswith("rank 1: GPU") and value["told"].endswith("closed")
    assert value["names"] == ["time without work", "a.py:nap", "time without work"] and value["last"] == value["slept"]


def test_page_of_nothing(written):
    data = json.loads(Page(written("html", "")).data)
    assert data["events"] == data["lanes"] == data["answer"]["ranks"] == [] and data["answer"]["verdict"]


def test_page_of_a_stall_without_stack_and_cause(written):
    data = json.loads(Page(written("html", process() + stall(1, 5000, "", python=[]))).data)["stalled"]
    assert (data["stacks"][0], data["rows"]) == ("unknown", [[-1, 0, 5000]])


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


@pytest.mark.parametrize("flag", ["html", "perfetto", "prometheus"])
@pytest.mark.parametrize("text", [LOG, "half a line\n" + LOG, json.dumps(report(), indent=2), json.dumps(DOCTOR, indent=2)],
                         ids=["log", "cut log", "report", "doctor"])
def test_a_log_or_a_report_is_never_overwritten(run, tmp_path, flag, text):
    """In `gpufeed report --html *`, the flag takes the first file."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(text)
    done = run(COMMAND, "report", f"--{flag}", "a", "b", preload=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and f"--{flag} would overwrite a, which" in done.stderr, done
    done = run(COMMAND, "report", f"--{flag}", "a", preload=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"gpufeed report: --{flag} took a as the file to write; name both: --{flag} FILE PATH...\n")
    assert (tmp_path / "a").read_text() == text and sorted(os.listdir(tmp_path)) == ["a", "b"]
    with open(tmp_path / "a", "r+", encoding="utf-8") as log:
        done = subprocess.run([COMMAND, "report", f"--{flag}", "/dev/stdout", "b"], stdout=log, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert done.returncode == 2 and (tmp_path / "a").read_text() == text, done
    for _ in range(2):  # a file that the command wrote before is renewed
        assert run(COMMAND, "report", f"--{flag}", "c", "b", preload=False, cwd=tmp_path).returncode == 0


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
    assert [one["args"]["name"] for one in events(text, ph="M", name="process_name")] == ["one: python3"]
    assert [one["args"]["text"] for one in events(text, ph="i")] == ['"GPU 1"']


@pytest.mark.parametrize("started", [10**10, 1e300])
def test_trace_of_times_that_nanoseconds_cannot_express(written, started):
    log = line(event="process", time=started, mono=1.0, pid=7, tid=7, schema=2, program="/p", rank=0) + \
        line(event="stall", time=started, mono=2.0, pid=7, tid=7, call="free", us=1000, cause="lock")
    data = json.loads(written("perfetto", log, report(8, 1, started=started)))
    assert 0 <= data["baseTimeNanoseconds"] <= 9 * 10**18 and all(abs(event.get("ts", 0)) < 10**16 for event in data["traceEvents"])


def nanoseconds(number, down):
    """How a reader may round."""
    return math.floor(number * 1000) if down else round(number * 1000)


@pytest.mark.parametrize("down", [True, False])
def test_steps_of_a_trace_never_overlap(written, down):
    """A reader drops slices that overlap. Times have no common grid."""
    at, lines = 0.1, ""
    for number in range(1, 2001, 20):
        steps = [(number + step, step * 0.012345678 + step % 7 * 1e-6) for step in range(20)]
        lines += marks(at, steps)
        at += 20 * 0.0123456789
    found = sorted(events(written("perfetto", process() + lines), cat="gpufeed_step"), key=lambda one: one["ts"])
    assert len(found) == 2000
    for before, one in zip(found, found[1:]):
        assert nanoseconds(before["ts"], down) + nanoseconds(before["dur"], down) <= nanoseconds(one["ts"], down)


def test_trace_counts_states_and_copies(written):
    text = written("perfetto", process() + activity(4, 7, 2, {"empty": 500, "queued": 1500}, [("to_device", "staged", 3000000)]) + end(5))
    base = json.loads(text)["baseTimeNanoseconds"]
    time, copies, time_after, copies_after = events(text, ph="C")
    assert time["args"] == {"empty": 25, "copying": 0, "communicating": 0, "queued": 75, "unknown": 0}
    assert copies["args"] == {"to GPU": 1.5, "from GPU": 0} and base / 1e9 + copies["ts"] / 1e6 == pytest.approx(STARTED + 2, abs=1e-5)
    for after in (time_after, copies_after):
        assert set(after["args"].values()) == {0} and base / 1e9 + after["ts"] / 1e6 == pytest.approx(STARTED + 4, abs=1e-5)


def test_trace_has_steps_in_a_row_of_their_own(written):
    """PyTorch's slices and stalls of a thread must be nested; a step need not begin or end together with them."""
    text = written("perfetto", process() + marks(1, [(4, 0), (5, 0.25), (0, 0.75), (6, 1)], skipped=3) + marks(9, [(20, 0), (21, 0.5)]))
    base = json.loads(text)["baseTimeNanoseconds"]
    found = events(text, cat="gpufeed_step")
    assert {(one["name"], one["ph"], one.get("dur")) for one in found} == \
        {("step 4", "X", 249999.999), ("step 5", "X", 499999.999), ("step 6", "X", 0), ("step 20", "X", 499999.999), ("step 21", "B", None)}
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
                                           (b'[{"name":"a","ph":"X","ts":5}]', "has no absolute times"),
                                           (b'{"traceEvents":[{"a', "is not a trace"), (None, "No such file")])
def test_traces_that_cannot_be_merged(run, tmp_path, content, what):
    (tmp_path / "log").write_text(LOG)
    if content is not None:
        (tmp_path / "torch").write_bytes(content)
    done = run(COMMAND, "report", "log", "--perfetto=out", "--with=torch", preload=False, cwd=tmp_path)
    assert done.returncode == 1 and what in done.stderr and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()
    assert run(COMMAND, "report", "log", "--with=torch", preload=False, cwd=tmp_path).returncode == 2
    done = run(COMMAND, "report", "log", "--perfetto=torch", "--with=torch", preload=False, cwd=tmp_path)
    assert done.returncode == 2 and "need different files" in done.stderr
    assert content is None or (tmp_path / "torch").read_bytes() == content
    assert run(COMMAND, "report", "log", "--html=x", "--perfetto=x", preload=False, cwd=tmp_path).returncode == 2


def samples(text):
    """Returns the samples by name and labels. Prometheus's own parser must accept the text."""
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
