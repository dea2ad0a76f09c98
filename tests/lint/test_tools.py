# SPDX-License-Identifier: Apache-2.0
"""The checks can fail, and the count counts."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
LINT = TESTS / "lint"
SOURCE = TESTS.parent


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("included, good", [
    ("base/fmt.h", True), ("host/facts.h", True), ("place/bind.h", False), ("hook/hooks.def", False),
    ("facts.h", True),
])
def test_layers(tmp_path, included, good):
    (tmp_path / "src" / "host").mkdir(parents=True)
    (tmp_path / "src" / "host" / "x.c").write_text(f'#include "{included}"\n')
    result = run(sys.executable, LINT / "layers.py", tmp_path)
    assert (result.returncode == 0) == good, result.stdout
    if not good:
        assert f"host includes {included}" in result.stdout


def words(path, pattern):
    return re.findall(pattern, (SOURCE / path).read_text(encoding="utf-8"), re.M)


def test_each_reason_is_explained():
    """A reader of a report looks its words up."""
    told = words("docs/report.md", r"^\| `(\w+)` \|")
    reasons = [word for word in words("src/transfer/stats.h", r"^    X\((\w+), ") if word not in ("pinned", "ends")]
    assert len(reasons) > 10 and [word for word in reasons if word not in told] == []
    text = (SOURCE / "docs" / "report.md").read_text(encoding="utf-8")
    for word in words("src/transfer/pinned_stats.c", r'^ *\[gf_pinned_\w+\] = "([^"]+)"'):
        assert f"`{word}`" in text, word


@pytest.mark.parametrize("path, text, complaint", [
    ("a.md", "[a](b.md) [b](b.md#x-y) docs/b.md", None),
    ("a.md", "[a](c.md)", "c.md is not there"),
    ("a.md", "[a](b.md#z)", "no such heading"),
    ("a.md", "`bench/c.py`", "bench/c.py is named and not there"),
    ("a.md", "`bench/c*.py`", None),
])
def test_links(tmp_path, path, text, complaint):
    (tmp_path / "b.md").write_text("## X `Y`\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# b\n")
    (tmp_path / path).write_text(text + "\n")
    result = run(sys.executable, LINT / "links.py", tmp_path)
    assert result.returncode == (1 if complaint else 0), result.stdout
    assert (complaint or "") in result.stdout


@pytest.mark.parametrize("text, complaint", [
    ("/* SPDX-License-Identifier: Apache-2.0 */\nint x;\n", None),
    ("int x;\n", "no SPDX line"),
    ("/* SPDX-License-Identifier: Apache-2.0 */\nint x; \n", "blanks at the end"),
    ("/* SPDX-License-Identifier: Apache-2.0 */\nint x;", "no newline"),
    ("/* SPDX-License-Identifier: Apache-2.0 */\n\tint x;\n", "tab, or more than"),
    ("/* SPDX-License-Identifier: Apache-2.0 */\n" + "int x;\n" * 700, "split it"),
])
def test_files(tmp_path, text, complaint):
    (tmp_path / "x.c").write_text(text)
    result = run(sys.executable, LINT / "files.py", tmp_path)
    assert (result.returncode == 0) == (complaint is None), result.stdout
    assert (complaint or "") in result.stdout


def test_docs(tmp_path):
    readme, table = tmp_path / "README.md", tmp_path / "options.md"
    begin = "<!-- options: written by tests/lint/docs.sh --write, from src/config/options.def -->"
    readme.write_text(f"before\n{begin}\nold\n<!-- end of options -->\nafter\n")
    table.write_text("new\n")
    assert run(LINT / "docs.sh", readme, table).returncode == 1
    assert run(LINT / "docs.sh", readme, table, "--write").returncode == 0
    assert readme.read_text() == f"before\n{begin}\nnew\n<!-- end of options -->\nafter\n"
    assert run(LINT / "docs.sh", readme, table).returncode == 0
    readme.write_text("no marks\n")
    assert run(LINT / "docs.sh", readme, table).returncode == 1


def write_log(build, suites, details=None, results=None):
    (build / "meson-logs").mkdir(parents=True)
    (build / "meson-logs" / "testlog.json").write_text(
        "".join(json.dumps({"name": name, "result": result}) + "\n" for name, result in (results or {}).items()))
    (build / "meson-logs" / "testlog.junit.xml").write_text(f"<testsuites>{suites}</testsuites>")
    (build / "junit").mkdir()
    for name, text in (details or {}).items():
        (build / "junit" / f"{name}.xml").write_text(f"<testsuites>{text}</testsuites>")


def count(*builds):
    result = run(sys.executable, TESTS / "count.py", *builds)
    return result.stdout.splitlines()[-1], result.returncode


GOOD, BAD = '<testcase name="{0}"/>', '<testcase name="{0}"><failure/></testcase>'
TAP = ('<testsuite name="p.p:unit / cpus" errors="0"><testcase name="1 - a"/>'
       '<testcase name="2 - b"/></testsuite>')
PYTEST = ('<testsuite><testcase classname="t" name="a"/><testcase classname="t" name="b">'
          '<skipped message="no GPU"/></testcase></testsuite>')


def test_count_looks_into_programs(tmp_path):
    write_log(tmp_path / "b", TAP + '<testsuite name="p">' +
              GOOD.format("p:preload / cli") + "</testsuite>", {"cli": PYTEST})
    assert count(tmp_path / "b") == ("3 passed, 0 failed, 1 skipped", 0)
    write_log(tmp_path / "c", TAP)
    assert count(tmp_path / "b", tmp_path / "c") == ("5 passed, 0 failed, 1 skipped", 0)


def test_count_sees_programs_that_died(tmp_path):
    """All cases passed, and yet meson says that the program failed."""
    for folder, result in (("b", "ERROR"), ("c", "TIMEOUT"), ("d", "FAIL")):
        write_log(tmp_path / folder, TAP + '<testsuite name="p">' + BAD.format("p:preload / cli") + "</testsuite>",
                  {"cli": PYTEST}, {"p:unit / cpus": result, "p:preload / cli": "FAIL", "p:unit / fmt": "OK"})
        assert count(tmp_path / folder) == ("3 passed, 2 failed, 1 skipped", 1)


def test_count_takes_a_failed_case_for_its_program(tmp_path):
    write_log(tmp_path / "b", TAP.replace('name="2 - b"/>', 'name="2 - b"><failure/></testcase>') + '<testsuite name="p">' +
              BAD.format("p:preload / cli") + "</testsuite>", None, {"p:unit / cpus": "FAIL", "p:preload / cli": "FAIL"})
    assert count(tmp_path / "b") == ("1 passed, 2 failed, 0 skipped", 1)


def test_count_of_nothing_is_a_failure(tmp_path):
    assert count(tmp_path / "none") == ("0 passed, 1 failed, 0 skipped", 1)
    write_log(tmp_path / "b", "")
    assert count(tmp_path / "b")[1] == 1
