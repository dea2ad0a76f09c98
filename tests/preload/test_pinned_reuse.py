# SPDX-License-Identifier: Apache-2.0
"""Pinned memory that the library keeps after a free: a later block shows nothing of an earlier one."""

import pytest
from pinkit import *


@pytest.mark.parametrize("size", [SMALL, 4 << 20])
def test_a_block_that_a_child_has_is_not_used_again(program, size):
    same(program(f"""
        start()
        for _ in range(3): # from then on the library keeps freed blocks
            ok(free(pinned({size})))
        for _ in range(3):
            p = pinned({size})
            fill(p, {size}, 1)
            (go, gone), (told, tell) = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                os.read(go, 1)
                memory = view(p, {size})
                os.write(tell, bytes([memory[0], memory[{size} - 1]]))
                memory[0] = 9
                os._exit(0)
            ok(free(p))
            q = pinned({size})
            fill(q, {size}, 2)
            os.write(gone, b"x")
            print(os.read(told, 2), os.waitpid(child, 0)[1], view(q, {size})[0])
            ok(free(q))
        """))


def test_a_block_that_a_child_has_may_be_freed_in_another_context(program):
    same(program("""
        first, second = start(), c_void_p()
        ok(cuda.cuCtxCreate_v2(byref(second), 0, 0))
        for _ in range(3):
            ok(cuda.cuCtxSetCurrent(first))
            p = pinned(SMALL)
            fill(p, SMALL, 1)
            (go, gone), (told, tell) = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                os.read(go, 1)
                os.write(tell, bytes([view(p, SMALL)[0]]))
                os._exit(0)
            ok(cuda.cuCtxSetCurrent(second))
            print(free(p))
            ok(cuda.cuCtxSetCurrent(first))
            q = pinned(SMALL)
            fill(q, SMALL, 2)
            os.write(gone, b"x")
            print(os.read(told, 1), os.waitpid(child, 0)[1], free(q))
        """))


@pytest.mark.parametrize("call", ["mprotect(at, size, 1)", "mprotect(at, size, 0)", "madvise(at, size, 10)", "mlock(at, size)"])
@pytest.mark.parametrize("size", [SMALL, 4 << 20])
def test_what_the_program_set_ends_with_the_block(program, size, call):
    """Protection, inheritance by children (MADV_DONTFORK is 10) and locking."""
    same(program(f"""
        def locked():
            return [line for line in open("/proc/self/status") if line.startswith("VmLck")]
        libc = ctypes.CDLL(None)
        start()
        for _ in range(3):
            ok(free(pinned({size})))
        for _ in range(3):
            p = pinned({size})
            fill(p, {size}, 1)
            at, size = c_void_p(p), c_size_t({size})
            print(libc.{call}, free(p), locked())
            q = pinned({size})
            print(zero(q, {size}), locked())
            fill(q, {size}, 2)
            child = os.fork()
            if child == 0:
                os._exit(view(q, {size})[0])
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), free(q))
        """))
