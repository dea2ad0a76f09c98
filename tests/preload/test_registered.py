# SPDX-License-Identifier: Apache-2.0
"""Memory that the program registers. The library prefaults it on the right node if that saves time, and leaves it
alone otherwise."""

import textwrap

import pytest
from pinkit import *


def present(body):
    return textwrap.dedent("""
        libc = ctypes.CDLL(None)
        def present(at, size):
            pages = create_string_buffer(size // 4096)
            ok(libc.mincore(c_void_p(at), c_size_t(size), pages))
            return sum(b & 1 for b in pages.raw)
        def anonymous(protection=3, flags=0x22, fd=-1, size=2 * LARGE):
            libc.mmap.restype = c_void_p
            return libc.mmap(None, c_size_t(size), protection, flags, fd, c_size_t(0))
        start()
        """) + textwrap.dedent(body)


def test_registered_memory_is_placed_beforehand(program):
    plain, ours = program(present("""
        at = anonymous()
        print(register(at, 2 * LARGE), present(at, 2 * LARGE), zero(at, LARGE), unregister(at))
        """))
    assert plain.stdout.split() == ["0", "0", "True", "0"], plain.stderr
    assert ours.stdout.split() == ["0", str(2 * LARGE // 4096), "True", "0"], ours.stderr


def test_a_threads_own_policy_places_registered_memory(program):
    """Helpers would place the pages by their own policy. So the driver's call touches them, on the calling thread."""
    same(program(present("""
        nodes, maxnode = c_uint64(1), c_size_t(64)
        if libc.syscall(238, 2, byref(nodes), maxnode): # set_mempolicy(MPOL_BIND, {0})
            sys.exit(print("no policy here"))
        at = anonymous()
        print(register(at, 2 * LARGE), present(at, 2 * LARGE), unregister(at))
        """)))


def test_a_threads_own_policy_places_the_destination_of_a_copy(program):
    """The calling thread touches the absent pages, so that its policy applies, and helpers copy the bytes."""
    _, ours = program(present("""
        import resource
        d = device(LARGE)
        def faults(policy):
            nodes = c_uint64(policy != 0)
            if libc.syscall(238, policy, byref(nodes), c_size_t(64)): # set_mempolicy
                sys.exit(print("no policy here"))
            at = anonymous(size=LARGE)
            libc.madvise(c_void_p(at), c_size_t(LARGE), 15) # MADV_NOHUGEPAGE
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
            ok(cuda.cuMemcpyDtoH_v2(c_void_p(at), d, c_size_t(LARGE)))
            return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        for _ in range(20): # until the ring is ready
            faults(0)
            time.sleep(0.01)
        print(faults(2) >= LARGE // 4096)
        """), GPUFEED_STAGE_MIN="1M", GPUFEED_VERBOSE=2)
    if "no policy here" in ours.stdout:
        pytest.skip("the kernel has no memory policies")
    assert ours.stdout == "True\n" and "copies from the GPU; staged" in ours.stderr, ours.stderr


@pytest.mark.parametrize("flags", [4, 8])
def test_odd_registrations_are_left_alone(program, flags):
    """The library does not prefault a device's registers. It does not prefault read-only memory, because that would
    map the zero page."""
    same(program(present(f"""
        at = anonymous()
        print(register(at, 2 * LARGE, {flags}), present(at, 2 * LARGE), unregister(at))
        """)))


def test_what_is_in_it_stays(program):
    """Present pages keep their bytes, and no memory policy of the library is left behind."""
    plain, ours = program(present("""
        at = anonymous()
        for offset in range(0, LARGE // 2, MIB):
            fill(at + offset, 9, 1 + offset // MIB)
        print(register(at, 2 * LARGE))
        print({ctypes.string_at(at + i * MIB, 14) == bytes([1 + i]) * 9 + bytes(5) for i in range(LARGE // 2 // MIB)})
        print({line.split()[1] for line in open("/proc/self/numa_maps") if line.startswith(f"{at:x} ")})
        print(unregister(at), file=sys.stderr)
        print(present(at, 2 * LARGE), file=sys.stderr)
        """))
    assert plain.stdout.splitlines()[1] == "{True}"
    assert str(2 * LARGE // 4096) in ours.stderr.split()  # the memory was prefaulted
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode), ours.stderr


SHARED = {"anonymous": "anonymous(3, 0x21)", "memfd": "file(os.memfd_create('cache'))",
          "shm": "file(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))", "reserved": "anonymous(3, 0x40021)"}


@pytest.mark.parametrize("how", SHARED)
def test_shared_memory_is_populated_beforehand(program, how):
    """Also pages that a sparse file lacks. The driver's call would create them one by one. What another process has
    written stays."""
    plain, ours = program(present(f"""
        path = f"/dev/shm/gpufeed-test-{{os.getpid()}}"
        def file(fd):
            os.truncate(fd, 2 * LARGE)
            return anonymous(3, 1, fd)
        at = {SHARED[how]}
        if at == 2**64 - 1:
            sys.exit(print("no reserved pages here"))
        if os.path.exists(path):
            os.unlink(path)
        if os.fork() == 0:
            fill(at, 9, 7)
            os._exit(0)
        os.wait()
        absent = present(at, 2 * LARGE) < LARGE // 4096
        before = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[7])
        print(absent, register(at, 2 * LARGE))
        print(present(at, 2 * LARGE), ctypes.string_at(at, 14) == bytes([7] * 9 + [0] * 5), zero(at + MIB, LARGE), unregister(at))
        """), GPUFEED_VERBOSE=2)
    if "no reserved pages here" in plain.stdout:
        pytest.skip("the host has no reserved huge pages")
    assert ours.stdout.split() == ["True", "0", str(2 * LARGE // 4096), "True", "True", "0"], ours.stderr
    assert plain.stdout.split()[-2:] == ["True", "0"], plain.stderr


def test_shared_memory_that_has_no_room(program):
    """A file system that is full: the driver's call gives its own result, and no signal arrives."""
    same(program(present("""
        fd = os.memfd_create("short")
        os.truncate(fd, LARGE)
        at = anonymous(3, 1, fd)
        print(register(at, 2 * LARGE) != 12345)
        """)))


@pytest.mark.parametrize("how", ["anonymous(1)", "anonymous(0)", "anonymous(1, 0x21)",
                                 "anonymous(3, 0x02, os.open(file, os.O_RDWR))",
                                 "anonymous(3, 0x01, os.open(file, os.O_RDWR))", "holed()", "mixed()"])
@pytest.mark.parametrize("flags", [0, 4, 8])
def test_other_memory_is_not_touched(program, tmp_path, how, flags):
    file = tmp_path / "file"
    file.write_bytes(b"x" * (2 * LARGE))
    same(program(present(f"""
        file = "{file}"
        def holed():
            at = anonymous()
            ok(libc.munmap(c_void_p(at + LARGE), c_size_t(4096)))
            return at
        def mixed():
            at = anonymous()
            ok(libc.mprotect(c_void_p(at + LARGE), c_size_t(4096), 1))
            return at
        at = {how}
        print(register(at, 2 * LARGE, {flags}), unregister(at))
        resident = [int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon")][0]
        print(resident * 1024 > LARGE + 60 * MIB)
        """)))
