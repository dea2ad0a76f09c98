# SPDX-License-Identifier: Apache-2.0
"""Stage h2d_more: the other parts of bench/h2d.py: reasons for slow small copies, first copies,
asynchronous copies, a busy GPU, ranks."""

import functools

import benched  # makes bench/ importable
import h2d
from common import Checks, guarded

check = Checks("h2d_more")
guarded(check, benched.measured, check, "h2d", functools.partial(h2d.measure, h2d.MORE), 400)
check.end()
