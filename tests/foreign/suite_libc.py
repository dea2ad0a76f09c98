# SPDX-License-Identifier: Apache-2.0
"""Own cases of the ideas of glibc's malloc, nptl, dlfcn and fork tests.
tests/hardening has further ones, for each way in which the library once differed."""

import re

from setting import FOREIGN

# Program, its cases.
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
