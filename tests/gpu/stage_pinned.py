# SPDX-License-Identifier: Apache-2.0
"""Stage pinned: bench/pinned.py with its claims as checks."""

import benched  # makes bench/ importable
import pinned
from common import Checks

check = Checks("pinned")
benched.measured(check, "pinned", pinned.measure, 150)
check.end()
