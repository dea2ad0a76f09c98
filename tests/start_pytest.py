#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts pytest in two thirds of the CPU time: start_pytest.py CACHE ARGUMENT...

Each test file is a process, and nearly all of them import the same kits, whose assertions pytest translates. So CACHE keeps
the translations, also where PYTHONDONTWRITEBYTECODE is set, and the source folders stay clean. Programs that a test starts
inherit neither. While modules are imported, nothing becomes garbage, so its collector waits."""
import gc
import sys

gc.disable()
import pytest  # noqa: E402  pylint: disable=wrong-import-position

sys.dont_write_bytecode, sys.pycache_prefix = False, sys.argv.pop(1)
del sys.path[0]  # this file's folder
gc.freeze()
gc.enable()
sys.exit(pytest.console_main())
