# SPDX-License-Identifier: Apache-2.0
"""A door and an engine of different builds (src/hook/engine_api.h): the number by which they know each other."""

import shutil
import subprocess

from doorkit import CUDA, SOURCE

MEETING = ["options", "birth", "cuda", "heap_ops", "transfer_ops", "stall_count", "stall_gpu", "journal_count", "tally", "latency",
           "copy_call", "nodes", "range", "heap_stats", "heap_setting", "heap_huge", "heap_touch", "heap_kept"]
NUMBER = """
#include "hook/engine_api.h"
#include <stdio.h>
int main(void) { printf("%x", GF_ENGINE_ABI); return 0; }
"""


def test_builds_that_share_another_size_part_ways(compile_c, tmp_path):
    """Of what one writes into the other's memory, too: a door that knows one more cause would write beyond the engine's."""
    def number(where, old="", new=""):
        text = where.read_text() if where else ""
        if where:
            assert old in text, old
            where.write_text(text.replace(old, new, 1))
        program = compile_c(NUMBER, "-std=gnu17", f"-I{copy}", "-isystem", CUDA)
        if where:
            where.write_text(text)
        return subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout

    copy = tmp_path / "src"
    shutil.copytree(SOURCE / "src", copy)
    ours = number(None)
    for name in MEETING:
        text = f"struct gf_{name} {{"
        found = [header for header in copy.rglob("*.h") if f"\n{text}\n" in header.read_text()]
        assert len(found) == 1, name
        assert number(found[0], text, text + " long more;") != ours, name
    assert number(copy / "observe/cause.h", "    GF_CAUSE_COUNT,", "    one_more, GF_CAUSE_COUNT,") != ours
