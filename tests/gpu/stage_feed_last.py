# SPDX-License-Identifier: Apache-2.0
"""Stage feed_last: those arms of bench/train.py in channels_last that have claims, with the claims
as checks."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed_last")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.LAST, only=train.CLAIMED), 480)
check.end()
