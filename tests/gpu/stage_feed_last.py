# SPDX-License-Identifier: Apache-2.0
"""Stage feed_last: bench/train.py's training loops in channels_last, those arms that have claims, with these as checks."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed_last")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.LAST, only=train.CLAIMED), 480)
check.end()
