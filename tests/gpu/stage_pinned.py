# SPDX-License-Identifier: Apache-2.0
"""Stage pinned: bench/pinned.py with its claims as checks."""

import benched  # makes bench/ importable
import pinned
from common import Checks, guarded

check = Checks("pinned")
guarded(check, benched.measured, check, "pinned", pinned.measure, 200)
check.end()
