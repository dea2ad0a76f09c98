#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a header with the hash of the contract between the preload library and the engine: abi_hash.py HEADER...

An upgrade may replace the files between a process's start, which loads the preload library, and its cuInit, which
loads the engine. The two refuse each other when any byte of the headers that both were built from differs.
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
