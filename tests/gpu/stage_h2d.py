# SPDX-License-Identifier: Apache-2.0
"""Stage h2d: bench/h2d.py with its claims as checks."""

import benched  # makes bench/ importable
import h2d
from common import Checks

check = Checks("h2d")
benched.measured(check, "h2d", h2d.measure, 400)
check.end()
