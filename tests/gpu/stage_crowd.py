# SPDX-License-Identifier: Apache-2.0
"""Stage crowd: eight ranks on one GPU whose loader workers need all CPUs, and one process with 16 such workers. They
must not be slower with the library."""

import functools

import benched  # makes bench/ importable
import train
from common import Checks, guarded

check = Checks("crowd")
guarded(check, benched.measured, check, "train", functools.partial(train.measure, train.CROWD), 300)
check.end()
