# SPDX-License-Identifier: Apache-2.0
"""Stage feed: bench/train.py's training loops, those arms that have claims, with these as checks."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.MAIN, only=train.CLAIMED), 480)
check.end()
