# SPDX-License-Identifier: Apache-2.0
"""Stage h2d: runs the parts of bench/h2d.py that decide acceptance (sizes, threads, few CPUs), and checks their
claims."""

import functools

import benched  # makes bench/ importable
import h2d
from common import Checks, guarded

check = Checks("h2d")
guarded(check, benched.measured, check, "h2d", functools.partial(h2d.measure, h2d.ACCEPT), 400)
check.end()
