# SPDX-License-Identifier: Apache-2.0
"""Files and processes that another user prepared, and what the command and the library do with them."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

PRELOAD_TESTS = pathlib.Path(__file__).resolve().parents[1] / "preload"
sys.path.insert(0, str(PRELOAD_TESTS))
_spec = importlib.util.spec_from_file_location("preload_conftest", PRELOAD_TESTS / "conftest.py")
_preload = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_preload)
PRELOAD, SIM_DIR, SOURCE, BUILD, COMMAND = _preload.PRELOAD, _preload.SIM_DIR, _preload.SOURCE, _preload.BUILD, _preload.COMMAND
START_COPIES = _preload.START_COPIES
compile_c = _preload.compile_c

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


# For programs in C that replace syscall().
SYSCALL_KIT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#define READ_ARGUMENTS(number, at) \
    va_list list; \
    long at[6]; \
    va_start(list, number); \
    for (int i = 0; i < 6; i++) at[i] = va_arg(list, long); \
    va_end(list);
#define PASS_ON(number, at) ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, at[0], at[1], at[2], at[3], at[4], at[5])
"""


class Other:
    """The other user."""

    def __init__(self, folder):
        self.folder = folder

    def sh(self, script):
        """Runs a shell script as this user, in the folder that all users may write to."""
        subprocess.run(["/bin/sh", "-ec", script], user="nobody", group="nogroup", extra_groups=[], cwd=self.folder, check=True)

    def start(self, command, **kw):
        return subprocess.Popen(command, user="nobody", group="nogroup", extra_groups=[], cwd=self.folder, **kw)


@pytest.fixture
def run():
    return _preload.Runner()


@pytest.fixture
def shared():
    """A folder of root in which each user may create files, like /tmp."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpufeed-hostile-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def other(shared):
    return Other(shared)


@pytest.fixture
def victim(tmp_path):
    """A file that only the process's user may write to, in a folder that only this user may enter."""
    path = tmp_path / "victim"
    path.write_text("kept")
    path.chmod(0o600)
    return path
