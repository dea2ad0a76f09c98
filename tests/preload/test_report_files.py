# SPDX-License-Identifier: Apache-2.0
"""Files that `gpufeed report` writes: the page, the trace, the metrics."""

import html.parser
import json
import os
import re

import pytest

from conftest import COMMAND
from test_report_answer import ANSWER, LOG, copied, end, process, report, stall


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
    text = written("html", LOG, report(9, 2, to_device=way, samples=samples, options=options))
    assert not re.search(r"https?:|//\w|@import|url\(", text) and "default-src 'none'" in text
    page = Page(text)
    assert {"verdict", "timeline", "places", "tables", "lengths", "copies", "ranks", "locality", "settings"} <= page.ids
    assert page.labels >= 10 and page.buttons >= 6 and "prefers-color-scheme: dark" in text
    data = json.loads(page.data)
    assert ANSWER.errors(data["answer"]) == [] and data["stalls"] == 3
    assert [event[2] for event in data["events"]] == [4000, 2000, 1000]
    assert [data["texts"][event[4]] for event in data["events"]] == ["train.py:4 in load"] * 2 + ["train.py:9 in collate"]
    assert data["events"][0][1] == pytest.approx(10 - 0.004, abs=1e-3)
    assert sum(us for lane in data["lanes"] for _, us in lane["bins"]) == 7000 == data["tree"]["us"]
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
