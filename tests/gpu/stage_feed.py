# SPDX-License-Identifier: Apache-2.0
"""Stage feed: runs the arms of bench/train.py that have claims, and checks the claims."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.MAIN, only=train.CLAIMED), 480)
check.end()
