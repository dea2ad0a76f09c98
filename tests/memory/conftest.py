# SPDX-License-Identifier: Apache-2.0
"""Builds the C programs of this folder."""
import subprocess

import pytest
from memorykit import HERE


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """programs("blocks") -> path of the program built from blocks.c. The compiler must not omit calls of malloc."""
    folder, built = tmp_path_factory.mktemp("programs"), {}

    def build(name):
        if name not in built:
            built[name] = folder / name
            subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wno-free-nonheap-object", HERE / f"{name}.c", "-o",
                            built[name], "-pthread", "-ldl"], check=True)
        return built[name]
    return build
