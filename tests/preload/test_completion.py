# SPDX-License-Identifier: Apache-2.0
"""gpufeed's bash completion, called as bash calls it: words split at "=", the cursor after the last
word."""

import subprocess

import pytest

from conftest import BUILD

ASK = """
compopt() { :; }                # only inside of a completion that bash itself began
_command_offset() { COMPREPLY=("command at $1"); }
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_gpufeed
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(*words, cwd=None):
    script = BUILD / "src" / "tools" / "gpufeed.bash"
    # bash may use 256 MiB of address space, so that a list that grows without limit fails the test.
    result = subprocess.run(["bash", "--norc", "-c", "ulimit -v 262144\n" + ASK, "bash", script, "gpufeed", *words],
                            capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


@pytest.mark.parametrize("words, expected", [
    (["run", "--bind", "=", "n"], ["node"]),
    (["run", "--bind", "="], ["auto", "node", "socket", "exclusive", "force", "off"]),
    (["run", "--bind", "n"], ["node"]),
    (["run", "--print", "--verbose", ""], ["0", "1", "2"]),
    (["run", "--bind", "node", "--hea"], ["--heap="]),
    (["run", "--bind", "=", "node", "--hea"], ["--heap="]),
    (["run", "--stall-us", "=", ""], []),
    (["run", "--sh"], ["--shm="]),
    (["run", "--shm", "=", ""], ["huge"]),
    (["run", "--stall-wait-us", "1"], []),
    (["run", "--stage-ring", ""], ["auto"]),
    (["report", "a-l"], ["a-log"]),
    (["report", "a-log", "--e"], ["--events"]),
    (["report", "--by", "=", "st"], ["step"]),
    (["report", "--by", "si"], ["site"]),
    (["run", "--report", "=", "a-l"], ["a-log"]),
    (["run", "--report", "a-l"], ["a-log"]),
    (["topo", "--machine", "a-"], ["a-folder"]),
    (["topo", "--record", "=", "a-"], ["a-folder"]),
    (["topo", "--j"], ["--json"]),
    (["doctor", "--machine", "a-"], ["a-folder"]),
    (["doctor", "--"], ["--json", "--fix", "--data", "--machine", "--help"]),
    (["help", "t"], ["top", "topo"]),
    (["compare", "a-"], ["a-folder", "a-log"]),
    (["compare", "--a"], ["--arm"]),
    (["top", "--c"], ["--count"]),
    (["compare", "-n", ""], []),
])
def test_what_is_offered(tmp_path, words, expected):
    (tmp_path / "a-log").touch()
    (tmp_path / "a-folder").mkdir()
    assert complete(*words, cwd=tmp_path) == expected


@pytest.mark.parametrize("words, at", [
    (["run", "python", "tr"], 2),
    (["run", "--", "tr"], 3),
    (["compare", "-n", "8", "--", "python", "tr"], 5),
    (["run", "--bind", "node", "python", "--he"], 4),
    (["run", "--bind", "=", "node", "--print", "--", "python", "--he"], 7),
])
def test_the_command_is_completed_as_itself(words, at):
    assert complete(*words) == ["command", "at", str(at)]
