# SPDX-License-Identifier: Apache-2.0
"""held.py KIND MIB SECONDS REQUESTS: loads about MIB and drops it, then waits, and answers a request a second if
REQUESTS is not 0. Prints what is resident above the start of the program."""
import json
import os
import sys
import threading
import time

from program import kib_of, put_result, start_engine_if_asked

KIND, SIZE, SECONDS, REQUESTS = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3]), int(sys.argv[4])
release = threading.Event()


def load_bytes():
    data = bytearray(SIZE)
    data[::4096] = b"1" * len(data[::4096])


def load_strings():
    [("%d" % number) * 120 for number in range(SIZE // 750)]


def load_lines():
    [os.urandom(3000) for _ in range(SIZE // 3100)]


def load_dicts():
    [{"a": number, "b": str(number)} for number in range(SIZE // 320)]


def burst():
    """Eight threads use blocks of 20 KiB and end."""
    def work():
        [bytes(20000 + number) for number in range(SIZE // (8 * 21500))]
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pool():
    """Sixteen threads that stay make one array each, one after the other."""
    lock, done = threading.Lock(), threading.Barrier(17)

    def work():
        with lock:
            data = b"x" * SIZE
            del data
        done.wait()
        release.wait()
    for _ in range(16):
        threading.Thread(target=work, daemon=True).start()
    done.wait()


start_engine_if_asked()
json.loads(json.dumps({"data": list(range(20))}))
before = kib_of("VmRSS")
{"bytes": load_bytes, "strings": load_strings, "lines": load_lines, "dicts": load_dicts, "burst": burst, "pool": pool}[KIND]()
for second in range(SECONDS):
    time.sleep(1)
    if REQUESTS:
        json.loads(json.dumps({"req": second, "data": list(range(20)), "body": "x" * 200}))
put_result(held=(kib_of("VmRSS") - before) / 1024)
