# SPDX-License-Identifier: Apache-2.0
"""Memory policies of threads, the heap and children."""
import json

import pytest

from conftest import PRELOAD
from enginekit import *


POLICY = """
    import json, platform, subprocess, sys
    number = {"x86_64": 239, "aarch64": 236}[platform.machine()]
    def policy():
        mode, nodes = ctypes.c_int(), (ctypes.c_ulong * 16)()
        result = ctypes.CDLL(None).syscall(number, ctypes.byref(mode), nodes, ctypes.c_ulong(1025),
                                           None, ctypes.c_ulong(0))
        return (mode.value, nodes[0]) if result == 0 else None
    if policy() is None:
        print("refused")
        sys.exit(0)
"""


def test_memory_policy_of_threads_heap_and_children(feed, tmp_path):
    """Every machine has node 0, so the kernel's own policies can be read."""
    report = tmp_path / "r-%p.json"
    found = feed(POLICY + """
    if len(sys.argv) > 1: # a child whose parent bound: what it inherited was taken back first
        assert policy() == (1, 1)
        start()
        sys.exit(0)
    keep = bytearray(64 << 20)
    assert policy() == (0, 0)
    start()
    assert policy() == (1, 1), policy()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(policy()))
    thread.start()
    thread.join()
    assert seen == [(1, 1)], seen
    assert "policy=preferred;nodes=0" in subprocess.run(["env"], text=True, capture_output=True).stdout
    subprocess.run([sys.executable, __file__, "child"], check=True)
    report = os.environ["GPUFEED_REPORT"].replace("%p", str(os.getpid()))
    def moved(): # as told at a look of the library's, which come once a second, then less often
        return os.path.exists(report) and json.load(open(report))["heap"]["migration"]["done"]
    assert wait_for(moved, 60)
    print(os.getpid())
    """, devices=NODE0, GPUFEED_REPORT=report)
    if found.stdout.strip() == "refused":
        pytest.skip("get_mempolicy is refused here (container without SYS_NICE)")
    parent = json.loads((tmp_path / f"r-{found.stdout.strip()}.json").read_text())
    assert "memory prefers node 0" in verdict_lines(found)[0]
    assert parent["binding"]["policy"] == "preferred" and parent["binding"]["policy_threads"] == 2
    moved = parent["heap"]["migration"]
    assert moved["wanted"] and moved["done"] and moved["refused"] == 0
    assert moved["after"]["by_node"]["0"] == moved["after"]["bytes"] > 56 << 20  # an estimate
    child, = [path for path in tmp_path.glob("r-*.json") if str(parent["pid"]) not in path.name]
    child = json.loads(child.read_text())
    assert child["start"]["inherited"] and child["start"]["policy"] == "default"
    assert child["binding"]["policy"] == "preferred"


REFUSED = """
    number = {"x86_64": 279, "aarch64": 239}[platform.machine()]
    if len(sys.argv) == 1:
        import struct
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in [
            (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
        libc = ctypes.CDLL(None)
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
        os.execv(sys.executable, [sys.executable, __file__, "filtered"])
"""


def test_pages_of_a_move_without_move_pages(feed, tmp_path):
    """The filters of Docker and Podman refuse move_pages also where they permit mbind. Then numa_maps is read."""
    report = tmp_path / "r.json"
    found = feed(POLICY + REFUSED + """
    keep = bytearray(64 << 20)
    start()
    def moved():
        path = os.environ["GPUFEED_REPORT"]
        return os.path.exists(path) and json.load(open(path))["heap"]["migration"]["done"]
    assert wait_for(moved, 60)
    """, devices=NODE0, GPUFEED_REPORT=report)
    if found.stdout.strip() == "refused":
        pytest.skip("get_mempolicy is refused here (container without SYS_NICE)")
    moved = json.loads(report.read_text())["heap"]["migration"]
    assert moved["before"]["bytes"] > 56 << 20 and moved["after"]["by_node"]["0"] > 56 << 20


SLOW_MOVE = r"""
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
/* The kernel takes longer for one piece than the library may spend on all. */
long syscall(long number, ...)
{
    __builtin_va_list args;
    long a[6];
    __builtin_va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = __builtin_va_arg(args, long);
    __builtin_va_end(args);
    if (number == SYS_mbind && a[5])
        usleep(3200000);
    return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"""


def test_a_move_that_reaches_its_time_limit_is_not_done(feed, compile_c, tmp_path):
    slow = compile_c(SLOW_MOVE, "-shared", "-fPIC", name="libslow.so")
    found = feed(POLICY + """
    keep = bytearray(64 << 20)
    start()
    report = os.environ["GPUFEED_REPORT"]
    assert wait_for(lambda: os.path.exists(report) and json.load(open(report))["heap"]["migration"]["stopped"], 60)
    """, devices=NODE0, GPUFEED_REPORT=tmp_path / "r.json", LD_PRELOAD=f"{PRELOAD}:{slow}")
    if found.stdout.strip() == "refused":
        pytest.skip("get_mempolicy is refused here (container without SYS_NICE)")
    moved = json.loads((tmp_path / "r.json").read_text())["heap"]["migration"]
    assert moved["stopped"] and not moved["done"] and moved["calls"] == 1, moved
    assert moved["bytes"] == 2 << 20 and moved["left_bytes"] > 62 << 20, moved


def test_policy_goes_when_the_devices_change(feed):
    """A thread that inherited the policy loses it, too, when the library next sees that thread."""
    feed(POLICY + """
    init()
    context(0)
    assert policy() == (1, 1)
    met, seen = threading.Event(), []
    def work():
        seen.append(policy())
        met.wait()
        context(1)
        seen.append(policy())
    thread = threading.Thread(target=work)
    thread.start()
    context(1)
    allocate(300)
    assert policy() == (0, 0) and mask() == [1], policy() # node 1 is not there and gives no memory
    met.set()
    thread.join()
    assert seen == [(1, 1), (0, 0)], seen
    """, devices=f"{NODE0},{NODE1}")


def test_mem_off_sets_no_policy(feed):
    found = feed(POLICY + "    start()\n    assert policy() == (0, 0)", devices=NODE0,
                 GPUFEED_MEM="off")
    assert "memory: GPUFEED_MEM=off" in found.stderr or "refused" in found.stdout
