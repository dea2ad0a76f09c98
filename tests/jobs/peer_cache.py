# SPDX-License-Identifier: Apache-2.0
"""The second job of j04: refreshes the cache, and holds the lock for 140 of each 145 ms."""
import fcntl
import os
import sys
import time

folder = sys.argv[1]
for n in range(4):
    with open(os.path.join(folder, f"{n}.bin"), "wb") as shard:
        shard.write(bytes(1 << 19))
with open(os.path.join(folder, ".lock"), "a") as guard:
    while True:
        fcntl.flock(guard, fcntl.LOCK_EX)
        time.sleep(0.14)
        fcntl.flock(guard, fcntl.LOCK_UN)
        time.sleep(0.005)
