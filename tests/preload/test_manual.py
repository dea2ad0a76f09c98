# SPDX-License-Identifier: Apache-2.0
"""The man page: its synopsis has the flags of the help, and its examples are commands that work."""

import re

from conftest import BUILD, COMMAND

FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
VERBS = ["run", "report", "compare", "stacks", "top", "topo", "doctor", "preload-path"]


def section(name):
    """Returns the lines of a section, without macros and escapes."""
    page = (BUILD / "src" / "tools" / "gpufeed.1").read_text(encoding="utf-8").replace("\\-", "-")
    text = re.search(rf"^\.SH {name}\n(.*?)^\.SH ", page, re.M | re.S)[1]
    return [re.sub(r"^\.[A-Z]+ ", "", line) for line in text.splitlines()]


def usages(lines):
    """Returns the flags of each usage, by verb."""
    ret = {}
    for line in lines:
        verb, *flags = line.split()[1], *FLAG.findall(line)
        ret.setdefault(verb, []).append(flags)
    return ret


def test_the_synopsis_is_that_of_the_help(run):
    manual = usages(" ".join(section("SYNOPSIS")).split(" .br "))
    for verb in VERBS:
        text = run(COMMAND, "help", verb, preload=False).stdout.split("\n\n")[0].removeprefix("Usage: ")
        assert manual[verb] == usages(text.splitlines())[verb]


def examples():
    """Yields the words of each command of gpufeed, without those of the shell."""
    for line in section("EXAMPLES"):
        command = re.match(r"(?:\w+=\$\()?(gpufeed [^)&>]*)", line)
        if command:
            yield command[1].split()


def test_the_examples_name_flags_that_exist(run):
    named = list(examples())
    assert {words[1] for words in named} == set(VERBS) - {"topo"}
    for _, verb, *rest in named:
        text = run(COMMAND, "help", verb, preload=False).stdout
        for flag in FLAG.findall(" ".join(rest).split("-- ")[0]):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", text), (verb, flag)


def test_run_accepts_the_flags_of_its_examples(run, tmp_path):
    (tmp_path / "run").mkdir()
    for words in examples():
        if words[1] == "run":
            done = run(COMMAND, "run", "--print", *words[2:words.index("--")], "--", "/bin/true", preload=False, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
