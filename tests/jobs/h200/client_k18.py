# SPDX-License-Identifier: Apache-2.0
"""The evening's users of k18.py: one request now and then."""
import random
import sys
import time
import urllib.error
import urllib.request

url, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        with urllib.request.urlopen(f"{url}/paint?seed={random.randrange(10**6)}", timeout=10) as reply:
            reply.read()
    except (urllib.error.URLError, OSError):
        break
    time.sleep(random.uniform(0.5, 1.3))
