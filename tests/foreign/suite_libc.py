# SPDX-License-Identifier: Apache-2.0
"""Cases of our own that follow the ideas of glibc's tests of malloc, nptl, dlfcn and fork. tests/hardening has cases
for bugs that the library once had."""

import re

from setting import FOREIGN

# Each program, with the cases that its source defines.
PROGRAMS = {file: re.findall(r"^CASE\((\w+)\)", (FOREIGN / "programs" / file).read_text(encoding="utf-8"), re.M)
            for file in ("libc_malloc.c", "libc_threads.c", "libc_loading.c", "libc_forks.c")}


def run(setting, only):
    found = {}
    for file, cases in PROGRAMS.items():
        program = setting.build(file, "-rdynamic")
        for case in cases:
            name = f"{program.name.removeprefix('libc_')} {case}"
            if only is None or name in only:
                done = setting.run(program, case, feeds=[program.name], timeout=60)
                found[name] = f"exit {done.returncode}: {done.stdout.strip()[-300:]}"
    return found
