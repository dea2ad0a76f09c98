# SPDX-License-Identifier: Apache-2.0
"""Tests that the lints can fail, and that count.py counts correctly."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.sax.saxutils import quoteattr

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
LINT = TESTS / "lint"
SOURCE = TESTS.parent


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)


def small_tree(root, **files):
    """Compiles a source tree of C files, whose keywords encode their paths, and runs layers.py on it."""
    paths = {root / "src" / name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "build" / "src").mkdir(parents=True, exist_ok=True)
    (root / "src" / "meson.build").write_text("'base/a.c' 'os/a.c' 'preload/b/' 'preload/c/a.c' 'host/a.c'")
    commands = []
    for path in paths:
        if path.suffix == ".c":
            made = f"src/{path.name}.o"
            words = ["cc", "-c", "-I", str(root / "src"), str(path), "-o", made]
            subprocess.run(words, check=True, cwd=root / "build")
            commands.append({"file": str(path), "output": made, "command": " ".join(words)})
    (root / "build" / "compile_commands.json").write_text(json.dumps(commands))
    return run(sys.executable, LINT / "layers.py", root, root / "build")


def test_layers_by_include(tmp_path):
    good = small_tree(tmp_path, os__x_dot_c='#include "base/fmt.h"\n', base__fmt_dot_h="", host__y_dot_h="")
    assert good.returncode == 0, good.stdout
    bad = small_tree(tmp_path, os__x_dot_c='#include "host/y.h"\n')
    assert bad.returncode == 1 and "includes host/y.h of host, which os may not use" in bad.stdout


def test_layers_in_a_floor(tmp_path):
    """A folder uses the folders of its floor that src/meson.build lists above it."""
    good = small_tree(tmp_path, preload__c__x_dot_c='#include "preload/b/y.h"\n', preload__b__y_dot_h="")
    assert good.returncode == 0, good.stdout
    bad = small_tree(tmp_path, preload__b__x_dot_c='#include "preload/c/y.h"\n', preload__c__y_dot_h="")
    assert bad.returncode == 1 and "includes preload/c/y.h of preload/c, which preload/b may not use" in bad.stdout


def test_layers_by_symbol(tmp_path):
    """A module that declares a function itself, without the header, still has a dependency, because the object file
    has the symbol."""
    files = {"os__x_dot_c": "int gf_y(void); int gf_x(void) { return gf_y(); }\n", "os__y_dot_c": "int gf_y(void) { return 1; }\n"}
    assert small_tree(tmp_path, **files).returncode == 0
    files["os__y_dot_c"] = "int gf_x(void); int gf_y(void) { return gf_x(); }\n"
    bad = small_tree(tmp_path, **files)
    assert bad.returncode == 1 and "modules in a cycle: os/x, os/y" in bad.stdout


def test_layers_unknown_folder(tmp_path):
    bad = small_tree(tmp_path, attic__x_dot_c='#include "base/fmt.h"\n', base__fmt_dot_h="")
    assert bad.returncode == 1 and "src/meson.build lists no source of src/attic" in bad.stdout


def test_layers_own_header_first(tmp_path):
    bad = small_tree(tmp_path, os__x_dot_c='#include "base/fmt.h"\n#include "os/x.h"\n', base__fmt_dot_h="", os__x_dot_h="")
    assert bad.returncode == 1 and "src/os/x.c does not include os/x.h first" in bad.stdout


def test_layers_header_compiles_alone(tmp_path):
    bad = small_tree(tmp_path, os__x_dot_c='#include <stddef.h>\n#include "base/fmt.h"\n', base__fmt_dot_h="extern size_t gf_x;\n")
    assert bad.returncode == 1 and "src/base/fmt.h does not compile alone" in bad.stdout


def test_layers_common_names(tmp_path):
    common = {f"os__m{n}_dot_c": "static int here(void)\n{\n    return 0;\n}\nint gf_m%d(void)\n{\n    return here();\n}\n" % n
              for n in range(3)}
    good = small_tree(tmp_path, **common)
    assert good.returncode == 0, good.stdout
    bad = small_tree(tmp_path, os__n_dot_c=common["os__m0_dot_c"].replace("gf_m0", "gf_n"))
    assert bad.returncode == 1 and "static here stands in 4 files: os/m0.c os/m1.c os/m2.c os/n.c" in bad.stdout


def words(path, pattern):
    return re.findall(pattern, (SOURCE / path).read_text(encoding="utf-8"), re.M)


def test_each_reason_is_explained():
    """Each bypass reason has a row in docs/report.md, and each state of pinned memory occurs in its text."""
    told = words("docs/report.md", r"^\| `(\w+)` \|")
    reasons = [word for word in words("src/abi/reasons.def", r"^GF_REASON\((\w+), ") if word not in ("pinned", "ends")]
    assert len(reasons) > 10 and [word for word in reasons if word not in told] == []
    text = (SOURCE / "docs" / "report.md").read_text(encoding="utf-8")
    for word in words("src/engine/transfer/stats.c", r'^ *\[gf_pinned_\w+\] = "([^"]+)"'):
        assert f"`{word}`" in text, word


def test_each_cause_is_explained():
    text = (SOURCE / "src" / "abi" / "trace_api.h").read_text(encoding="utf-8")
    causes = re.findall(r"X\((\w+)\)", text[text.index("#define GF_CAUSES(X)"):text.index("enum gf_cause")])
    told = words("docs/log.md", r"^\| `(\w+)` \|")
    assert len(causes) > 10 and [cause for cause in causes if cause not in told] == []


def test_docs_follow_the_code(tmp_path):
    tree, options = tmp_path / "tree", tmp_path / "options.md"
    for folder in ("docs", "src"):
        shutil.copytree(SOURCE / folder, tree / folder)
    docs = [sys.executable, LINT / "docs.py", tree]
    assert run(*docs).returncode == 0, "the tree itself"
    options.write_text("new\n")
    assert run(*docs, options).returncode == 1
    for path, old, new in (("docs/schema/log.def", '"time since 1970"', '"a " \n "\\"`time`\\""'),
                           ("src/abi/formats.h", "GF_LOG_SCHEMA 2", "GF_LOG_SCHEMA 77"),
                           ("src/tools/doctor/checks.def", 'GF_CHECK(links, "links",', 'GF_CHECK(links, "links", "all files, and "'),
                           ("src/abi/reasons.def", "GF_REASON(batch, ", 'GF_REASON(batch, "new " '),):
        text = (tree / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, path
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")
    told = run(*docs, options)
    assert told.returncode == 1 and {line.split()[0] for line in told.stdout.splitlines()} == {
        "docs/doctor.md", "docs/environment.md", "docs/log.md", "docs/report.md", "docs/schema/log.json"}
    assert run(*told.stdout.splitlines()[0].partition("run: ")[2].split()).returncode == 0
    assert run(*docs, options).returncode == 0
    page = {name: (tree / "docs" / name).read_text(encoding="utf-8") for name in ("environment.md", "log.md", "report.md", "doctor.md")}
    assert "-->\nnew\n<!-- end of options -->\n" in page["environment.md"]
    assert '| `time` | number, s | a "`time`" |' in page["log.md"]
    schema = json.loads((tree / "docs/schema/log.json").read_text(encoding="utf-8"))["$defs"]["process"]["properties"]
    assert schema["time"]["description"] == 'a "time"' and schema["schema"]["const"] == 77
    assert "| `links` | all files, and " in page["doctor.md"] and re.search(r"^\| `batch` \| new [^|]+ \| \w[^|]+\|$", page["report.md"], re.M)
    (tree / "docs/architecture.md").write_text("no table\n")
    assert "docs/architecture.md lacks the lines of the table graph" in run(*docs).stdout


@pytest.mark.parametrize("path, before, after, complaint", [
    ("src/x.c", "", "", None),
    ("src/os/more.c", "", "gf_bypass_few_threads", "a bypass reason needs 2 places"),
    ("src/abi/hooks.def", "cuMemcpy3D_v2", "cuMemcpy4D", "a hook needs 2 places"),
    ("CONTRIBUTING.md", "| a log field | 2:", "| a log field | 3:", "a log field needs 3 places"),
    ("CONTRIBUTING.md", "`src/base/log_areas.h`", "`src/base/log.h`", "a debug area needs 1 places of src/base/log.h, but"),
    ("CONTRIBUTING.md", "| a report field |", "| a field |", "has no row for a report field"),
    ("docs/log.md", "| `throttled` |", "<!-- x: written by a -->\n| `throttled` |\n<!-- end of x -->\n", "a stall cause needs 3"),
])
def test_places(tmp_path, path, before, after, complaint):
    """Runs the lint on a copy of this tree with one change."""
    for name in ("src", "docs"):
        shutil.copytree(SOURCE / name, tmp_path / name)
    (tmp_path / "tests/preload").mkdir(parents=True)
    for name in ("CONTRIBUTING.md", "tests/preload/test_doctor.py"):
        shutil.copy(SOURCE / name, tmp_path / name)
    file = tmp_path / path
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    assert before in text
    file.write_text(text.replace(before, after, 1) if before else text + after)
    result = run(sys.executable, LINT / "places.py", tmp_path)
    assert result.returncode == (1 if complaint else 0), result.stdout
    assert (complaint or "") in result.stdout


@pytest.mark.parametrize("path, text, complaint", [
    ("a.md", "[a](b.md) [b](b.md#x-y) docs/b.md", None),
    ("a.md", "[a](c.md)", "c.md is not there"),
    ("a.md", "[a](b.md#z)", "no such heading"),
    ("a.md", "`bench/c.py`", "bench/c.py is named and not there"),
    ("a.md", "`bench/c*.py`", None),
    ("a.md", "`gf_there` `gf_<module>_<verb>` `gf_on_*`", None),
    ("a.md", "`gf_gone()`", "gf_gone is named, and no symbol of src"),
])
def test_links(tmp_path, path, text, complaint):
    (tmp_path / "b.md").write_text("## X `Y`\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# b\n")
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "b.c").write_text("int gf_there(void);\n")
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
    write_log(tmp_path / "d", TAP.replace("</testsuite>", "<system-out>\x1b[1mred</system-out></testsuite>"))
    assert count(tmp_path / "d") == ("2 passed, 0 failed, 0 skipped", 0)


def test_count_sees_programs_that_died(tmp_path):
    """All cases passed, but meson reports that the program failed."""
    for folder, result in (("b", "ERROR"), ("c", "TIMEOUT"), ("d", "FAIL")):
        write_log(tmp_path / folder, TAP + '<testsuite name="p">' + BAD.format("p:preload / cli") + "</testsuite>",
                  {"cli": PYTEST}, {"p:unit / cpus": result, "p:preload / cli": "FAIL", "p:unit / fmt": "OK"})
        assert count(tmp_path / folder) == ("3 passed, 2 failed, 1 skipped", 1)


def test_count_takes_a_failed_case_for_its_program(tmp_path):
    write_log(tmp_path / "b", TAP.replace('name="2 - b"/>', 'name="2 - b"><failure/></testcase>') + '<testsuite name="p">' +
              BAD.format("p:preload / cli") + "</testsuite>", None, {"p:unit / cpus": "FAIL", "p:preload / cli": "FAIL"})
    assert count(tmp_path / "b") == ("1 passed, 2 failed, 0 skipped", 1)


def test_count_reads_all_logs_of_a_folder(tmp_path):
    """A log without results is a failure. The result of a repeated test replaces the first one."""
    def add(log, case=None):
        path = tmp_path / "b" / "meson-logs" / log
        path.with_suffix(".json").write_text("")
        if case:
            path.with_suffix(".junit.xml").write_text(
                f'<testsuites><testsuite name="p">{case.format("p:numa / vm")}</testsuite></testsuites>')
    write_log(tmp_path / "b", TAP)
    add("testlog-machines")
    assert count(tmp_path / "b") == ("2 passed, 1 failed, 0 skipped", 1)
    add("testlog-machines", BAD)
    assert count(tmp_path / "b") == ("2 passed, 1 failed, 0 skipped", 1)
    add("testlog-again", GOOD)
    assert count(tmp_path / "b") == ("3 passed, 0 failed, 0 skipped", 0)


def test_count_refuses_two_programs_with_one_name(tmp_path):
    write_log(tmp_path / "b", TAP + '<testsuite name="p">' + GOOD.format("p:preload / cpus") + "</testsuite>")
    assert count(tmp_path / "b") == ("3 passed, 1 failed, 0 skipped", 1)


def test_count_permits_few_skips_for_a_busy_machine(tmp_path):
    skipped = '<testcase classname="t" name="a{0}"><skipped message="busy: no CPU"/></testcase>'
    for folder, number, failed in (("b", 3, 0), ("c", 4, 1)):
        cases = "".join(skipped.format(n) for n in range(number))
        write_log(tmp_path / folder, '<testsuite name="p">' + GOOD.format("p:preload / cli") + "</testsuite>",
                  {"cli": f'<testsuite>{cases}<testcase classname="t" name="b"/></testsuite>'})
        assert count(tmp_path / folder) == (f"1 passed, {failed} failed, {number} skipped", failed)


@pytest.mark.parametrize("message, stderr, repeated", [
    ("subprocess.TimeoutExpired: Command '['x']' timed out after 180 seconds", "", True),
    ("AssertionError: gpufeed: a line\nassert (-14, 'begin') == (0, 'begin end')", "", True),
    ("assert -14 == 0\n +  where -14 = CompletedProcess(args=[], returncode=-14).returncode", "", True),
    ("assert (0, 'sum 5') == (0, 'sum 6')", "", False),
    ("assert 'errno -14' == 'errno 0'", "", False),
    ("subprocess.TimeoutExpired: x", "WARNING: ThreadSanitizer: data race", False),
])
def test_again_repeats_only_what_was_late(tmp_path, monkeypatch, message, stderr, repeated):
    """A second case, which differs, prevents the repetition."""
    meson = tmp_path / "meson"
    meson.write_text("#!/bin/sh\necho ran $*\n")
    meson.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    late = f'<testcase name="a"><failure message={quoteattr(message)}/></testcase>'
    for folder, cases, names in (("b", late, " cli\n" if repeated else ""),
                                 ("c", late + '<testcase name="b"><failure message="assert 1 == 2"/></testcase>', "")):
        write_log(tmp_path / folder, "", {"cli": cases}, {"p:preload / cli": "FAIL", "p:preload / top": "OK"})
        log = tmp_path / folder / "meson-logs" / "testlog.json"
        log.write_text(log.read_text().replace('"result": "FAIL"', f'"result": "FAIL", "stderr": "{stderr}"'))
        said = run(sys.executable, TESTS / "again.py", tmp_path / folder).stdout
        assert said.endswith(names) and bool(said) == bool(names), said


ROW = "not ok {0} - row\n# Traceback:\n# {1}\nok 3 - other\n"
LATE_ROW, WRONG_ROW = "TimeoutError: the row took over 60 s", "AssertionError: 5 threads are misplaced"


@pytest.mark.parametrize("result, code, text, repeated", [
    ("TIMEOUT", -15, "", True), ("ERROR", 142, "", True), ("ERROR", 139, "", False), ("FAIL", 1, "not ok 1 - a\n", False),
    ("FAIL", 0, ROW.format(1, LATE_ROW), True), ("FAIL", 0, ROW.format(1, LATE_ROW) + ROW.format(2, WRONG_ROW), False)])
def test_again_repeats_a_program_that_met_its_alarm(tmp_path, monkeypatch, result, code, text, repeated):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "meson").write_text("#!/bin/sh\n")
    (tmp_path / "meson").chmod(0o755)
    write_log(tmp_path / "b", TAP)
    (tmp_path / "b" / "meson-logs" / "testlog.json").write_text(
        json.dumps({"name": "p:unit / ring", "result": result, "returncode": code, "stdout": text}) + "\n")
    assert ("ring" in run(sys.executable, TESTS / "again.py", tmp_path / "b").stdout) == repeated


def test_count_of_nothing_is_a_failure(tmp_path):
    assert count(tmp_path / "none") == ("0 passed, 1 failed, 0 skipped", 1)
    write_log(tmp_path / "b", "")
    assert count(tmp_path / "b")[1] == 1


def test_count_says_why_cases_were_skipped(tmp_path):
    """The last line but one has the reasons, the most frequent first."""
    (tmp_path / "meson-logs").mkdir()
    cases = "".join(f'<testcase name="{n}"><skipped message="{why}"/></testcase>' for n, why in
                    enumerate(("no GPU", "no qemu", "no GPU")))
    (tmp_path / "meson-logs" / "testlog.junit.xml").write_text(
        '<testsuites><testsuite name="s"><testcase name="p"/></testsuite></testsuites>')
    (tmp_path / "junit").mkdir()
    (tmp_path / "junit" / "p.xml").write_text(f"<testsuite>{cases}</testsuite>")
    said = run(sys.executable, TESTS / "count.py", tmp_path).stdout.splitlines()
    assert said[-2:] == ["skipped: 2 no GPU; 1 no qemu", "0 passed, 0 failed, 3 skipped"]


def test_count_names_failed_cases_last(tmp_path):
    """One line each, with the complaint's first line and the assertion, right before the numbers."""
    tap = ('<testsuite name="p.p:unit / ring" failures="1"><testcase name="1 - a"/><testcase name="2 - b"><failure/></testcase>'
           "<system-out>1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n# ring.c:7: error: Failure!\n</system-out></testsuite>")
    lint = BAD.format("p:lint / files").replace("<failure/>", "<failure/><system-err>reading\na.c:1: error: too long\nend</system-err>")
    message = quoteattr("AssertionError: gpufeed: a line\nassert (1, 2) == (1, 3)\n  at 1")
    python = f'<testsuite><testcase classname="t" name="a"><failure message={message}/></testcase></testsuite>'
    write_log(tmp_path / "b", f'{tap}<testsuite name="p">{BAD.format("p:preload / cli")}{lint}</testsuite>', {"cli": python},
              {"p:unit / ring": "FAIL", "p:unit / pool": "TIMEOUT"})
    build = tmp_path / "b"
    assert run(sys.executable, TESTS / "count.py", build).stdout.splitlines()[-5:] == [
        f"FAILED  {build}: p.p:unit / ring 2 - b: 1 != 2 | ring.c:7: error: Failure!",
        f"FAILED  {build}: t a: AssertionError: gpufeed: a line | assert (1, 2) == (1, 3)",
        f"FAILED  {build}: p files: a.c:1: error: too long",
        f"FAILED  {build}: p:unit / pool: the program itself: TIMEOUT exit code None",
        "1 passed, 4 failed, 0 skipped"]


def test_calls(tmp_path):
    """A call may occur in comments and strings. A file on the list must really make its calls."""
    (tmp_path / "src" / "engine").mkdir(parents=True)
    file = tmp_path / "src" / "engine" / "x.c"
    file.write_text('/* open() */ const char *text = "close(1)";\nint f(void)\n{\n    return opens(0);\n}\n')
    good = run(sys.executable, LINT / "calls.py", tmp_path).stdout
    assert "x.c" not in good and "src/os/procfs.c makes no call of descriptors" in good
    for line, word in (("munmap(at, size);", "munmap"), ("syscall(SYS_close, fd);", "close"),
                       ("mmap(at, 1, 0, MAP_FIXED | MAP_PRIVATE, -1, 0);", "MAP_FIXED")):
        file.write_text(f"void f(void)\n{{\n    {line}\n}}\n")
        bad = run(sys.executable, LINT / "calls.py", tmp_path)
        assert bad.returncode == 1 and f"src/engine/x.c:3: {word}: no reason" in bad.stdout
