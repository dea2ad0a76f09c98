#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a header with the hash of the contract between the preload library and the engine: abi_hash.py HEADER...

A process loads the preload library at its start, and the engine at cuInit. An upgrade in between may replace both files.
So the preload library refuses an engine that was built from other contract headers.
"""
import hashlib
import pathlib
import sys

digest = hashlib.sha256()
for path in sys.argv[1:]:
    text = pathlib.Path(path).read_bytes()
    digest.update(len(text).to_bytes(8, "little") + text)
print("/* Written by scripts/abi_hash.py from the contract headers. */")
print(f"#define GF_ENGINE_ABI UINT32_C(0x{digest.hexdigest()[:8]})")
