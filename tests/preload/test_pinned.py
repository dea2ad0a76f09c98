# SPDX-License-Identifier: Apache-2.0
"""Pinned memory: a program sees the same with and without the library."""

import os
import re
import textwrap

import pytest
from pinkit import *

ATTRIBUTES = """
    def attributes(at, context):
        for what in range(1, 22):
            value = c_uint64(0)
            result = cuda.cuPointerGetAttribute(byref(value), what, c_uint64(at))
            shown = value.value
            if shown == context.value: shown = "context"
            elif base <= shown <= base + size: shown = f"+{shown - base}"
            elif what in (7, 20): shown = "id"
            print(what, result, shown)
        kinds, values = (c_int * 3)(2, 18, 12), [c_uint64(0) for _ in range(3)]
        places = (c_void_p * 3)(*map(ctypes.addressof, values))
        print(cuda.cuPointerGetAttributes(3, kinds, places, c_uint64(at)), [v.value for v in values])
    """


@pytest.mark.parametrize("size, flags", [(LARGE, 0), (LARGE + 4097, 1), (LARGE, 2), (LARGE, 3)])
def test_attributes_of_a_large_one(program, size, flags):
    same(program(textwrap.dedent(ATTRIBUTES) + textwrap.dedent(f"""
        context, size = start(), {size}
        base = pinned(size, {flags})
        served(base, size)
        print(base % 4096, zero(base, size), {{p for p, _ in mappings(base, size)}})
        for at in (base, base + size // 2 + 3, base + size - 1, base + size):
            attributes(at, context)
            flags, dev, start_, length = c_uint(99), c_uint64(), c_uint64(), c_size_t()
            print(cuda.cuMemHostGetFlags(byref(flags), c_void_p(at)), flags.value)
            print(cuda.cuMemHostGetDevicePointer_v2(byref(dev), c_void_p(at), 0), dev.value == at)
            print(cuda.cuMemGetAddressRange_v2(byref(start_), byref(length), c_uint64(at)),
                  start_.value == base, length.value)
        """)), served=1)


def test_errors_of_a_large_one(program):
    same(program("""
        start()
        p = pinned(LARGE)
        served(p, LARGE)
        print(unregister(p), unregister(p + LARGE // 2), unregister(p))
        print(register(p, 4096), register(p + 8192, 4096), register(p - 4096, 8192), register(p, LARGE))
        print(cuda.cuMemFree_v2(c_uint64(p)), free(p + 4096), free(p + LARGE // 2))
        flags = c_uint()
        print(cuda.cuMemHostGetFlags(byref(flags), c_void_p(p)), flags.value)
        print(free(p), free(p), unregister(p), cuda.cuMemHostGetFlags(byref(flags), c_void_p(p)))
        print(mappings(p, LARGE))
        other = c_void_p()
        print(cuda.cuMemAllocHost_v2(byref(other), c_size_t(LARGE)), free(other.value))
        """), served=1)


def test_what_is_the_drivers(program):
    ours = same(program("""
        start()
        print(alloc(0), alloc(1 << 50), alloc(LARGE, 8))
        print(cuda.cuMemHostAlloc(None, c_size_t(LARGE), 0))
        p = pinned(LARGE, 4)
        served(p, LARGE)
        print(free(p))
        cuda.cuCtxSetCurrent(None)
        print(alloc(LARGE)[0], alloc(SMALL)[0])
        """), served=0)
    assert "left to the driver" not in ours.stderr  # a call without a context is the program's error, not the library's


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_fork_shares_both_ways(program, size):
    same(program(f"""
        start()
        p = pinned({size})
        served(p, {size})
        memory = view(p, {size})
        memory[0] = 1
        memory[{size} - 1] = 2
        child = os.fork()
        if child == 0:
            print(memory[0], memory[{size} - 1], free(p), unregister(p), alloc(4096)[0], flush=True)
            memory[1] = 7
            os._exit(memory[1])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), memory[0], memory[1])
        print(free(p))
        """), served=size // LARGE)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_free_waits_for_the_context(program, size):
    same(program(f"""
        start()
        p, on = pinned({size}), stream()
        for _ in range(2): # the second time a mapping is kept
            let_go = hold(on)
            print(cuda.cuStreamQuery(on), alloc({size})[0], cuda.cuStreamQuery(on))
            let_go(0.1)
            print(free(p), cuda.cuStreamQuery(on))
            p = pinned({size})
        """))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_freed_block_is_not_used_again_too_early(program, size):
    """The simulated device reads as late as the driver's rules permit."""
    same(program(f"""
        start()
        on, to = stream(), device({size})
        for i in range(1, 6):
            p = pinned({size})
            fill(p, {size}, i)
            ok(cuda.cuMemcpyHtoDAsync_v2(to, c_void_p(p), c_size_t({size}), on))
            ok(free(p))
            q = pinned({size})
            fill(q, {size}, 0xee)
            back = create_string_buffer({size})
            ok(cuda.cuMemcpyDtoH_v2(back, to, c_size_t({size})))
            print(back.raw.count(i) == {size})
            ok(free(q))
        """, SIM_DMA="late"))


def test_zero_where_the_driver_gives_zero(program):
    """A single block comes from a fresh mapping, and so do several blocks that were all freed."""
    same(program("""
        start()
        for size in (1, 100, 4095, 4096, 4097, 100000, MIB - 5, MIB, LARGE):
            for _ in range(3):
                p = pinned(size)
                print(size, zero(p, size))
                fill(p, size, 0xee)
                ok(free(p))
        for _ in range(4):
            blocks = [(pinned(size), size) for size in (5000, 100, MIB, 70000, 300000, 3, MIB, 4096)]
            print(*(zero(*block) for block in blocks))
            for p, size in blocks:
                fill(p, size, 0xee)
            for p, _ in blocks:
                ok(free(p))
        """))


def test_the_mapping_of_small_ones_stays(program):
    plain, ours = program("""
        start()
        for size in (4096, MIB):
            p = pinned(size)
            ok(free(p))
            kept = mappings(p, size)
            q = pinned(MIB // 2)
            print(size, bool(kept))
            ok(free(q))
        """)
    assert plain.stdout.split() == ["4096", "False", str(MIB), "False"], plain.stderr
    assert ours.stdout.split() == ["4096", "True", str(MIB), "True"], ours.stderr


def test_flags_are_those_of_the_block_that_made_the_mapping(program):
    same(program("""
        start()
        def flags(at):
            said = c_uint(99)
            return cuda.cuMemHostGetFlags(byref(said), c_void_p(at)), said.value
        for turn in range(3):
            for first, second in ((0, 1), (1, 0), (2, 3), (3, 3), (1, 4)):
                p = pinned(SMALL, first)
                q = pinned(SMALL, second)
                print(first, second, flags(p), flags(q + SMALL - 1))
                ok(free(p))
                print(flags(q), flags(p), free(q))
        """))


def test_a_lone_block_begins_at_a_page(program):
    """Files are read into such blocks with O_DIRECT. Other blocks begin wherever there is space."""
    same(program("""
        start()
        for size in (4096, 100, MIB, 3):
            p = pinned(size)
            q = pinned(size)
            print(p % 4096, (q - p) if size < MIB else 0)
            ok(free(p) + free(q))
        """))


def test_no_more_is_kept_than_allowed(program):
    """At most one mapping of 2 MiB is kept for each context."""
    text = """
        start()
        kept = 0
        for n in range(4):
            made = c_void_p()
            ok(cuda.cuCtxCreate_v2(byref(made), 0, 0))
            blocks = [pinned(MIB) for _ in range(6)]
            for p in blocks:
                ok(free(p))
            kept += len({p >> 21 for p in blocks if mappings(p, MIB)})
        print(kept)
        """
    for limit, most in (("0", 0), ("1M", 0), ("2M", 1), ("6M", 3), ("auto", 4)):
        plain, ours = program(text, GPUFEED_PIN_CACHE=limit)
        assert plain.stdout.strip() == "0"
        assert int(ours.stdout) == most, ours.stderr


def huge():
    "Whether one thread is quick enough."
    try:
        text = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read()
    except OSError:
        return False
    return "[never]" not in text and "[deny]" not in text


@pytest.mark.parametrize("flags, environment, served", [
    (0, {"GPUFEED_STAGE_THREADS": 3}, int(huge())),
    (0, {"SIM_DEVICES": "0000:41:00.0,0000:81:00.0"}, 1),
    (1, {"SIM_DEVICES": "0000:41:00.0,0000:81:00.0"}, 1)])
def test_large_ones_are_served_where_that_is_sure_to_pay(program, flags, environment, served):
    same(program(f"""
        start()
        p = pinned(LARGE, {flags})
        served(p, LARGE)
        said = c_uint(99)
        print(cuda.cuMemHostGetFlags(byref(said), c_void_p(p)), said.value, free(p))
        """, **environment), served=served)


def test_off_leaves_all_to_the_driver(program):
    text = """
        start()
        p, q = pinned(SMALL), pinned(LARGE)
        served(q, LARGE)
        ok(free(p))
        print(mappings(p, SMALL))
        """
    same(program(text, GPUFEED_PIN="off"), served=0)
    same(program(text, GPUFEED="observe"), served=0)


def test_what_was_done_is_said(program):
    _, ours = program("""
        start()
        p, q, r = pinned(LARGE), pinned(SMALL), pinned(2 * MIB)
        ok(free(q))
        assert alloc(1 << 63)[0] # fails, and is not in the sums
        """, GPUFEED_VERBOSE=2)
    lines = [line for line in ours.stderr.splitlines() if "pinned memory:" in line]
    assert len(lines) == 1
    assert f"large 1 ({LARGE} bytes); small 1 ({SMALL} bytes); size or flags 2 ({2 * MIB} bytes)" in lines[0]
    assert re.search(rf"(node \d+ holds {LARGE} bytes|{LARGE} bytes on several)", lines[0])
    assert lines[0].endswith(f"{2 * MIB} bytes kept for reuse, released 0 times")


def test_nothing_is_done_under_compute_sanitizer(program, compile_c):
    library = compile_c("int nothing;", "-shared", "-fPIC", name="libsanitizer-collection.so")
    same(program(f"""
        ctypes.CDLL("{library}")
        start()
        p, q = pinned(SMALL), pinned(LARGE)
        served(q, LARGE)
        ok(free(p))
        print(mappings(p, SMALL), free(q))
        """), served=0)


def test_compute_sanitizer_is_named_in_the_explanation(program, compile_c):
    library = compile_c("int nothing;", "-shared", "-fPIC", name="libsanitizer-collection.so")
    _, done = program(f"""
        ctypes.CDLL("{library}")
        start()
        """, GPUFEED_DEBUG="copy", GPUFEED_VERBOSE=0)
    assert "gpufeed: copy: staging is off: the process runs under compute-sanitizer" in done.stderr


@pytest.mark.parametrize("who, mode, exchange", [("same", 0, 0), ("same", 2, 0), ("other", 0, 0),
                                                 ("other", 0, 2), ("other", 1, 0)])
def test_beside_a_capture(program, mode, exchange, who):
    same(program(f"""
        import threading
        context = start()
        sizes = (SMALL, MIB, LARGE, 2 * MIB)
        own = mmap.mmap(-1, LARGE)
        at = ctypes.addressof(ctypes.c_char.from_buffer(own))

        def call(what):
            ok(cuda.cuCtxSetCurrent(context))
            was = c_int({exchange})
            ok(cuda.cuThreadExchangeStreamCaptureMode(byref(was)))
            print(what(), end=" ")
            ok(cuda.cuThreadExchangeStreamCaptureMode(byref(was)))

        ok(free(pinned(SMALL)))
        many = [pinned(MIB) for _ in range(8)]
        for p in many: # kept with the library
            ok(free(p))
        for size in sizes:
            p = pinned(size)
            calls = (lambda: alloc(size)[0], lambda: unregister(p), lambda: register(p, 4096),
                     lambda: free(p), lambda: register(at, LARGE), lambda: unregister(at))
            for what in calls:
                on, graph = stream(), c_void_p()
                ok(cuda.cuStreamBeginCapture_v2(on, {mode}))
                if "{who}" == "same":
                    call(what)
                else:
                    thread = threading.Thread(target=call, args=(what,))
                    thread.start()
                    thread.join()
                print(cuda.cuStreamEndCapture(on, byref(graph)))
        """))


FAULTS = """
    start()
    for _ in range(3):
        p, q = pinned(LARGE), pinned(SMALL)
        fill(p, LARGE, 1)
        fill(q, SMALL, 2)
        print(zero(p, 1), ctypes.string_at(q, 3), free(p), free(q))
    own = mmap.mmap(-1, LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(own))
    print(register(at, LARGE), unregister(at))
    """


# These faults occur only in calls of the library, which a program without the library does not make.
@pytest.mark.parametrize("fault", ["cuPointerGetAttribute:1+:1", "cuPointerGetAttribute:2:999",
                                   "cuPointerGetAttributes:1+:1", "cuPointerGetAttributes:2:999",
                                   "cuCtxGetId:1+:801", "cuDevicePrimaryCtxRetain:2+:2",
                                   "cuDeviceGetAttribute:1+:1", "cuDevicePrimaryCtxGetState:1+:999"])
def test_faults(program, fault):
    same(program(FAULTS, SIM_FAULT=fault))


@pytest.mark.parametrize("code", [1, 2, 304, 801, 999])
def test_registering_fails(program, code):
    text = FAULTS.rsplit("\n    own", 1)[0]
    ours = same(program(text, SIM_FAULT=f"cuMemHostRegister_v2:1+:{code}"))
    assert ours.stderr.count("are left to the driver") == 1
    assert f"cuMemHostRegister failed ({code})" in ours.stderr
    assert len(ours.stderr.splitlines()) == 1


def test_unregistering_fails_once(program):
    text = FAULTS.rsplit("\n    own", 1)[0]
    same(program(text, SIM_FAULT="cuMemHostUnregister:2:999"))


@pytest.mark.parametrize("what, reached", [("plenty", True), ("half", False)])
def test_a_small_control_group(run, what, reached):
    group = memory_group(600 * MIB if what == "plenty" else 256 * MIB)
    text = PROLOGUE + textwrap.dedent(f"""
        open("{group}/cgroup.procs", "w").write(str(os.getpid()))
        start()
        p = pinned(192 * MIB)
        served(p, 192 * MIB)
        print(zero(p, MIB), free(p))
        """)
    try:
        ours = run("/usr/bin/python3", "-c", text, sim=True, GPUFEED_VERBOSE=2, GPUFEED_STAGE_THREADS=4)
        assert (ours.returncode, ours.stdout) == (0, "True 0\n"), ours.stderr
        assert ("served" in ours.stderr) == reached
        assert ("too little memory" in ours.stderr) != reached
    finally:
        os.rmdir(group)


def test_what_is_kept_is_given_back_when_little_is_left(run):
    group = memory_group(256 * MIB)
    text = PROLOGUE + textwrap.dedent(f"""
        open("{group}/cgroup.procs", "w").write(str(os.getpid()))
        usage = [f for f in ("memory.current", "memory.usage_in_bytes") if os.path.exists("{group}/" + f)][0]
        start()
        def kept():
            p = pinned(SMALL)
            ok(free(p))
            return bool(mappings(p, SMALL))
        print(kept(), kept())
        p, hog = pinned(SMALL), []
        while int(open("{group}/" + usage).read()) < 200 * MIB:
            hog.append(mmap.mmap(-1, 4 * MIB))
            hog[-1].write(b"x" * 4 * MIB)
        time.sleep(1.1)
        print(kept(), free(p), bool(mappings(p, SMALL))) # beside a block of the program's nothing can be given
        print(kept())
        for one in hog:
            one.close()
        time.sleep(1.1)
        print(kept(), kept())
        """)
    try:
        ours = run("/usr/bin/python3", "-c", text, sim=True)
        assert ours.stdout.split() == ["True", "True", "True", "0", "False", "False", "True", "True"], ours.stderr
    finally:
        os.rmdir(group)


def test_threads(program):
    """No block is handed out twice while other threads free theirs."""
    same(program("""
        import random, threading
        context, bad = start(), []
        def work(seed):
            chance, held = random.Random(seed), []
            ok(cuda.cuCtxSetCurrent(context))
            for step in range(24):
                size = chance.choice((100, 4096, 70000, MIB, 4 * MIB, LARGE))
                p = pinned(size)
                fill(p, size, seed)
                held.append((p, size))
                if len(held) > 4:
                    p, size = held.pop(chance.randrange(len(held)))
                    if ctypes.string_at(p, size).count(seed) != size:
                        bad.append((seed, step))
                    ok(free(p))
            for p, size in held:
                ok(free(p))
        threads = [threading.Thread(target=work, args=(n + 1,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(bad)
        """))
