# SPDX-License-Identifier: Apache-2.0
"""Moves arrays in each of JAX's ways. Prints the bytes that arrived."""

import hashlib
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import numpy  # noqa: E402

MIB = 1 << 20


def digest(array):
    return hashlib.blake2b(numpy.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def made_up(size, seed):
    return numpy.random.default_rng(seed).integers(0, 200, size, dtype=numpy.uint8)


def main():
    print(jax.devices()[0].platform)
    for size in (1, 4097, MIB, 5 * MIB + 3, 64 * MIB, 130 * MIB):
        host = made_up(size, size)
        there = jax.device_put(host)
        back = numpy.asarray(there)
        print("put", size, digest(back), "" if numpy.array_equal(back, host) else "WRONG", flush=True)
        plus = jax.jit(lambda x: x + 1)(host)
        print("jit", size, digest(numpy.asarray(plus)), flush=True)
    many = [made_up(3 * MIB, seed) for seed in range(20)]
    there = jax.device_put(many)
    jax.block_until_ready(there)
    print("many", " ".join(digest(numpy.asarray(one)) for one in there))


main()
