# SPDX-License-Identifier: Apache-2.0
"""The slow reader of j09: 64 KiB each 70 ms."""
import os
import time

while os.read(0, 65536):
    time.sleep(0.07)
