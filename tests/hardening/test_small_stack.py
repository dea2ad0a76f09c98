# SPDX-License-Identifier: Apache-2.0
"""A thread with a small stack can use as much of it as it could without the library, whichever function of libc starts
the thread."""

import pytest

from conftest import BUILD

PROGRAM = BUILD / "tests" / "hardening" / "small_stack"


@pytest.mark.parametrize("log", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}], ids=["plain", "log"])
@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_a_small_stack_is_as_large(run, gpu, log):
    bare, ours = run.both(PROGRAM, *gpu, sim=True, **log)
    assert (bare.returncode, ours.returncode) == (0, 0), (bare, ours)
    assert int(ours.stdout) >= int(bare.stdout) > 4000, (ours, bare)


@pytest.fixture(scope="module")
def users(compile_here):
    return compile_here("stack_users.c", "-O1", "-fno-builtin", "-pthread", "-lrt", "-lanl")


@pytest.mark.parametrize("extra", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}, {"GPUFEED": "observe"}, {"LD_BIND_NOW": 1}],
                         ids=lambda extra: "".join(extra) or "on")
@pytest.mark.parametrize("kind", ["attr", "default", "c11", "limit", "timer", "aio", "mq", "name", "sizes"])
def test_who_starts_the_thread(run, users, kind, extra):
    if run(users, kind, preload=False).returncode == 77:
        pytest.skip("no message queues")
    run.alike(users, kind, **extra)


@pytest.mark.parametrize("extra", [{}, {"GPUFEED_LOG": "/dev/null"}, {"GPUFEED": "off"}], ids=lambda extra: "".join(extra) or "on")
def test_first_block_on_a_small_stack(run, compile_c, extra):
    """The heap starts on a stack of its own, since the program's first block may be allocated in a context or a handler.
    Their stack may be a part of the first thread's stack."""
    program = compile_c(r"""
        #include <stdlib.h>
        #include <string.h>
        #include <ucontext.h>
        enum { STACK = 8192 };
        static struct area { char below[2 * STACK], stack[STACK]; } of_file;
        static ucontext_t here, there;
        static void allocate(void) { free(malloc(1)); }
        int main(int argc, char **argv) {
            struct area of_frame, *area = argc > 1 ? &of_frame : &of_file;
            int changed = 0;
            memset(area->below, 1, sizeof(area->below));
            getcontext(&there);
            there.uc_stack.ss_sp = area->stack;
            there.uc_stack.ss_size = STACK;
            there.uc_link = &here;
            makecontext(&there, allocate, 0);
            swapcontext(&here, &there);
            for (int i = 0; i < 2 * STACK; i++)
                changed |= area->below[i] != 1;
            return changed; }
        """, "-fno-builtin")
    run.alike(program, **extra)
    run.alike(program, "in_frame", **extra)
