# SPDX-License-Identifier: Apache-2.0
"""Stage feed_last: runs the channels_last arms of bench/train.py that have claims, and checks the claims."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed_last")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.LAST, only=train.CLAIMED), 480)
check.end()
