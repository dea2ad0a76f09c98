# SPDX-License-Identifier: Apache-2.0
"""The page of `gpufeed report --html`: its script runs to its end, and all that it makes has a name for screen readers.
Node.js runs the script with a small model of a browser's document (page_model.js)."""

import collections
import html.parser
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from reportkit import DOCTOR, LOG, activity, copied, gpu_time, marks, process, report, shown, stall  # noqa: F401

VOID = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """The elements of a page: (tag, attributes, text of its own, ids around it)."""

    def __init__(self, text):
        super().__init__()
        self.all, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.all.append([tag, dict(attrs), "", [one[1].get("id") for one in self.open]])
        if tag not in VOID:
            self.open.append(self.all[-1])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1][2] += data


@pytest.fixture
def page(shown, tmp_path):
    def call(*texts):
        shown(*texts, flags=["--html", tmp_path / "page.html"])
        return (tmp_path / "page.html").read_text(encoding="utf-8")
    return call


def idle_report(rank):
    part = gpu_time({"empty": 5, "queued": 5}, {"data": 3, "sleep": 2})
    part["devices"][0]["paths"] = [{"cause": cause, "path": path, "s": s} for cause, path, s in (
        ("data", "train.py:<module>;train.py:load", 3), ("sleep", "train.py:<module>;train.py:nap", 2))]
    return report(7 + rank, rank, to_device={"driver": copied(10, 1 << 20, 0.1)}, gpu_time=part,
                  options={"stage_min": {"value": "1M", "origin": "environment"}},
                  samples=[{"heap": {"by_node": {"0": 1 << 20}}, "other": {"by_node": {"0": 4096}}}])


def job(ranks):
    """Logs and reports of a job in which each table and picture of the page has a row."""
    made = [DOCTOR]
    for rank in range(ranks):
        pid = 7 + rank
        made += [process(pid, rank) + stall(10, 4000 + rank, pid=pid) + stall(20, 2000, "lock", "collate", pid=pid) +
                 marks(30, [(1, 0), (2, 1), (3, 2), (4, 9), (0, 10)], pid=pid) +
                 activity(50, pid, states={"empty": 500, "queued": 500}, copies=[("to_device", "driver", 1 << 20)],
                          longest=[(49.5, 900, 1 << 20, "to_device", pid)]), idle_report(rank)]
    return made


def test_names_of_the_static_part(page):
    """Each element that can be focused has a name; references have a target; an id stands once."""
    found = Page(page(LOG))
    ids = [attrs["id"] for _, attrs, _, _ in found.all if "id" in attrs]
    assert len(ids) == len(set(ids)) and not found.open
    assert found.all[0][:2] == ["html", {"lang": "en"}]
    for tag, attrs, text, _ in found.all:
        for reference in ("aria-labelledby", "aria-describedby"):
            assert reference not in attrs or attrs[reference] in ids, attrs
        if tag in ("button", "select", "canvas", "nav") or "tabindex" in attrs:
            assert text.strip() or attrs.get("aria-label"), (tag, attrs)
        assert tag != "section" or set(attrs) == {"id"}, "a section with a name is a landmark: its title is spoken twice"
        assert attrs.get("role") != "application", "Orca does not say its name, and keeps arrow keys for itself"


def modelled(page_text, tmp_path):
    """Runs the page's script. Returns what it says about a row of the timeline, and all elements: (tag, attributes, text,
    tags and classes around it, tags of its children)."""
    node = shutil.which("node")
    if not node:
        pytest.skip("Node.js is not installed")
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", page_text, re.S)
    static = [[attrs["id"], tag, attrs, around, text] for tag, attrs, text, around in Page(page_text).all if "id" in attrs]
    (tmp_path / "input.json").write_text(json.dumps({"data": data, "script": script, "static": static}), encoding="utf-8")
    done = subprocess.run([node, pathlib.Path(__file__).parent / "page_model.js", tmp_path / "input.json"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["told"], found["made"]


@pytest.mark.parametrize("ranks", [1, 140])
def test_names_of_what_the_script_makes(page, tmp_path, ranks):
    """140 ranks have more threads than the timeline has rows."""
    told, made = modelled(page(*job(ranks)), tmp_path)
    assert re.match(r"rank .*(: steps: 2 steps drawn in this part, 1 of more than twice the median, the longest at .*: step 3 took 7 s|closed)$",
                    told), told
    count = collections.Counter(tag for tag, *_ in made)
    ids = [attrs["id"] for _, attrs, *_ in made if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert any(tag == "td" and text == "memlock" for tag, _, text, *_ in made), "no findings of the doctor"
    rows = {attrs.get("id") for _, attrs, *_ in made if attrs.get("role") == "treeitem"}
    assert len(rows) > 1 and any(attrs.get("aria-level") == "3" for _, attrs, *_ in made)
    for tag, attrs, text, around, children in made:
        if tag == "th":
            assert attrs.get("scope") == ("col" if "thead" in around else "row"), (attrs, text)
        elif tag == "table":
            assert children[0] == "caption", text
        elif tag == "li" and "bars" in around:
            assert children == ["span", "div", "span"], text  # a screen reader skips the bar
        elif tag == "a":
            assert "li" in around, text  # otherwise Orca says at each link that it is in the navigation
        elif attrs.get("role") == "tree":
            assert children and set(children) == {"button" if tag == "div" else "div"}, attrs
            assert tag == "div" or attrs["aria-activedescendant"] in rows, attrs
        if tag in ("button", "select") or "tabindex" in attrs:
            assert attrs.get("aria-label") or text.strip(), (tag, attrs)
            assert "title" not in attrs, "a screen reader reads it as a second name"
    assert min(count[tag] for tag in ("table", "th", "button", "a", "li", "option")) >= 2, count
    longest = [text for tag, _, text, *_ in made if tag == "th" and re.search(r"free took 4\S*\sms", text)]
    assert longest and all(re.search(r", rank \d+$", text) for text in longest), longest


def test_a_page_without_data_has_no_empty_section(page, tmp_path):
    for tag, attrs, text, *_ in modelled(page(process()), tmp_path)[1]:
        if tag == "section":
            assert text or "hidden" in attrs, attrs
        assert attrs.get("id") != "icicle" or "hidden" in attrs
