# SPDX-License-Identifier: Apache-2.0
"""Stage pinned: runs bench/pinned.py, and checks its claims."""

import benched  # makes bench/ importable
import pinned
from common import Checks, guarded

check = Checks("pinned")
guarded(check, benched.measured, check, "pinned", pinned.measure, 200)
check.end()
