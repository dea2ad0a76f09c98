# SPDX-License-Identifier: Apache-2.0
"""The only user of h2's server: a request each 1.5 s."""
import sys
import time
import urllib.request

time.sleep(2)
while True:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/generate", b"tell me more").read()
    except OSError:
        break
    time.sleep(1.5)
