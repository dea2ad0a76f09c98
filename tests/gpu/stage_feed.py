# SPDX-License-Identifier: Apache-2.0
"""Stage feed: bench/train.py with its claims as checks."""

import benched  # makes bench/ importable
import train
from common import Checks

check = Checks("feed")
benched.measured(check, "train", train.measure, 420)
check.end()
