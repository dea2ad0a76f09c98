# SPDX-License-Identifier: Apache-2.0
"""What turns raw figures into claims, tables and charts; and programs that CI cannot run to their end."""

import ast
import builtins
import json
import pathlib
import subprocess
import sys
import xml.dom.minidom

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import arms  # noqa: E402


def case(speeds, least, name="sizes: h2d sync 4 MiB, 1 thread"):
    """A case whose arm `ours` is so many times as fast as `driver` and `pinned`, round by round."""
    made = arms.Case(name, {}, [("ours", "driver", "GB/s", least, "of the driver")], part="sizes", way="h2d",
                     bytes=4 << 20, mode="sync", threads=1, load=0)
    made.rounds = [{"driver": {"GB/s": 10, "CPU s/GB": 0.1}, "pinned": {"GB/s": 50, "CPU s/GB": 0.01},
                    "ours": {"GB/s": 10 * speed, "CPU s/GB": 0.2}} for speed in speeds]
    return made


@pytest.mark.parametrize("speeds, least, good", [
    ([1.0] * 15, 0.97, True),
    ([0.9] * 15, 0.97, False),
    ([0.9, 1.1] * 10, 0.97, False),  # the median is fine, its interval is not
    ([1.0] * 15, "same", True),
    ([0.99, 1.01] * 10, "same", True),
    ([0.95, 1.05] * 10, "same", False),  # wider than 4 %
    ([1.2, 1.3] * 10, "same", True),
    ([0.98] * 15, "same", False),
])
def test_claims(speeds, least, good):
    assert [one[1] for one in case(speeds, least).judged()] == [good]


def test_rounds_shuffle_and_stop():
    order, made = [], []
    for name in ("one", "two"):
        def turn(name=name):
            order.append(name)
            return {"GB/s": 1}
        made.append(arms.Case(name, {"a": turn, "b": turn}))
    arms.rounds(made, until=float("inf"), least=10, seed=1)
    assert [len(one.rounds) for one in made] == [10, 10]
    taken = order[2:]  # after the warm turns
    assert {taken[at] for at in range(0, len(taken), 2)} == {"one", "two"}, "always in the same order"


def run_results(tmp_path, dry, *options):
    raw, out = tmp_path / "raw.jsonl", tmp_path / "RESULTS.md"
    record = {"bench": "h2d", "dry": dry, "machine": {"cpu": "c", "cpus": 2, "kernel": "k", "libc": "l", "date": "d"},
              "cases": [case([3.0] * 15, 0.97).record(), case([0.5] * 15, 0.97, "other").record()]}
    raw.write_text(json.dumps(record) + "\n")
    out.write_text("# Results\n\nbefore\n")
    done = subprocess.run([sys.executable, ROOT / "bench" / "results.py", raw, "--results", out, "--charts", tmp_path,
                           *options], capture_output=True, text=True, check=False)
    return done, out.read_text(), tmp_path / "copies.svg"


def test_results_are_written_once_and_drawn(tmp_path):
    first = run_results(tmp_path, False)
    assert first[0].returncode == 0, first[0].stderr
    assert "3.000 (3.000 to 3.000)" in first[1] and "0.97, **not met**" in first[1] and "0.97, met" in first[1] and "before" in first[1]
    xml.dom.minidom.parse(str(first[2]))
    subprocess.run([sys.executable, ROOT / "bench" / "results.py", tmp_path / "raw.jsonl", "--results",
                    tmp_path / "RESULTS.md", "--charts", tmp_path], check=True)
    assert (tmp_path / "RESULTS.md").read_text() == first[1]


def test_figures_of_the_simulated_driver_are_refused(tmp_path):
    done, text, _ = run_results(tmp_path, True)
    assert done.returncode != 0 and "simulated driver" in done.stderr and "3.000" not in text


def test_what_is_chance_is_shown(tmp_path):
    made = arms.Case("resnet18", {}, [("ours", "plain", "images/s", 1.5, "times"), ("ours", "hand", "images/s", 1.0, "times")],
                     controls=[("again", "plain", "images/s")], part="resnet18", unit="images")
    for turn in range(15):
        speeds = {"plain": 100 + turn % 3, "again": 103 - turn % 3, "ours": 200, "hand": 220, "unheard-of": 1}
        made.rounds.append({arm: {"images/s": speed, "CPU s/GB": 1} for arm, speed in speeds.items()})
    (_, value, low, high), = made.noise()
    assert low < value < high
    raw, out = tmp_path / "raw.jsonl", tmp_path / "RESULTS.md"
    raw.write_text(json.dumps({"bench": "train", "dry": False, "cases": [made.record()], "machine": {
        "cpu": "c", "cpus": 2, "kernel": "k", "libc": "l", "date": "d"}}) + "\n")
    subprocess.run([sys.executable, ROOT / "bench" / "results.py", raw, "--results", out, "--charts", tmp_path], check=True)
    text = out.read_text()
    assert "of plain, which is the same" in text
    assert "| ours / plain | 1.5 | 1 of 1 | met |" in text and "| ours / hand | 1 | 0 of 1 | **not met** |" in text
    xml.dom.minidom.parse(str(tmp_path / "programs.svg"))


def test_a_case_without_a_round_says_nothing():
    made = arms.Case("none", {}, [("ours", "driver", "GB/s", 1, "")], controls=[("again", "driver", "GB/s")])
    assert made.judged() == [] and made.record()["claims"] == [] and made.record()["controls"] == []


def unknown_names(text):
    """Names that are read and that nothing in the file makes, in whatever scope."""
    made, read = {*dir(builtins), "__file__", "__name__"}, set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            made.add(node.name)
    return read - made


@pytest.mark.parametrize("path", sorted([*ROOT.glob("tests/gpu/*.py"), *ROOT.glob("tests/gpu/programs/*.py"),
                                         *ROOT.glob("bench/*.py")]), ids=lambda path: path.name)
def test_every_name_is_known(path):
    """What needs a GPU would say so after minutes of it."""
    assert unknown_names(path.read_text(encoding="utf-8")) == set()


def test_a_name_that_nothing_makes_is_found():
    assert unknown_names("import a.b as c\ndef f(x):\n    return c(x, y)\nf(1)\ng()\n") == {"y", "g"}
