#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""targets.py BUILD [--installed] SUITE...: prints the targets that these suites' tests need, one a line, for ninja. With
--installed, also those that are installed."""

import json
import os
import subprocess
import sys


def main():
    build, *suites = sys.argv[1:]
    known = json.loads(subprocess.run(["meson", "introspect", build, "--tests", "--targets"], capture_output=True, check=True).stdout)
    wanted = {name for test in known["tests"] for name in test["depends"]
              if any(suite.split(":")[-1] in suites for suite in test["suite"])}
    for target in known["targets"]:
        if target["id"] in wanted or (target["installed"] and "--installed" in suites):
            for file in target["filename"]:
                print(os.path.relpath(file, build))


if __name__ == "__main__":
    main()
