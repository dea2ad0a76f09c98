# SPDX-License-Identifier: Apache-2.0
"""Stage feed_more: runs the other programs of bench/train.py, and checks their claims."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("feed_more")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.MORE), 300)
check.end()
