# SPDX-License-Identifier: Apache-2.0
"""A forked child's log has its own limits and counts; only the parent reports the lines that the parent dropped."""

import json

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void stall(int times)
{
    for (int i = 0; i < times; i++) {
        char *block = calloc(1, 3 << 20);
        block[100] = 1;
        free(block);
    }
}
int main(void)
{
    int status, bad = 0;
    stall(3000);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            stall(40);
            _exit(0);
        }
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    puts("forked");
    return bad;
}
"""


def test_a_child_has_its_own_limits_and_counts(run, compile_c, tmp_path):
    """Before the parent forks, it has logged the 500 lines that its rate limit permits in a burst."""
    program = compile_c(PROGRAM, "-fno-builtin")
    run.alike(program, GPUFEED_LOG=tmp_path / "%p.log", GPUFEED_STALL_US=1, timeout=100)
    logs = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in tmp_path.iterdir()}
    parents = {str(lines[0]["ppid"]) for lines in logs.values()} & set(logs)
    assert len(logs) == 4 and len(parents) == 1, {pid: len(lines) for pid, lines in logs.items()}
    [parent] = parents
    for pid, lines in logs.items():
        if pid != parent:
            assert [line["event"] for line in lines].count("process") == 1
            assert len(lines) >= 20, lines
            assert not any("dropped" in line for line in lines), lines
