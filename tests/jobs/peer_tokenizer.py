# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of j05: byte pairs, slowly."""
import json
import sys

for line in sys.stdin:
    texts = json.loads(line)
    pairs = {}
    for n in range(250_000):
        key = (n % 251, n % 13)
        pairs[key] = pairs.get(key, 0) + 1
    print(json.dumps([[len(word) for word in text.split()] for text in texts]), flush=True)
