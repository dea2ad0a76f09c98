# SPDX-License-Identifier: Apache-2.0
"""Freed pages of a whole process, and the report's figures about them."""
import glob
import json

import pytest

from conftest import PRELOAD
from schemakit import read_report
from test_engine import feed, machine  # noqa: F401

MIB = 1 << 20
FILL = """
    import ctypes
    import json
    say = {}
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]

    def fill(mib):
        block = libc.malloc(ctypes.c_size_t(mib << 20))
        ctypes.memset(block, 1, mib << 20)
        libc.free(block)

    def lazy():
        with open("/proc/self/smaps_rollup") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree:"))
"""


def told(feed, script, **env):  # noqa: F811
    """Runs the script, and returns the values that it stored in `say`."""
    return json.loads(feed(FILL + script + "    print(json.dumps(say))\n", **env).stdout)


def heap_of(path):
    return read_report(path)["heap"]


def settings_of(heap):
    return {row["name"]: row for row in heap["settings"]}


def test_a_program_with_an_engine_keeps_what_comes_back(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    found = told(feed, """
    start()
    time.sleep(0.2)
    for _ in range(3):
        fill(160)
    say["lazy"] = lazy()
    time.sleep(0.6)
""", GPUFEED_REPORT=report)
    assert found["lazy"] == 0
    heap = heap_of(report)
    assert heap["retained"]["managed"] and 150 * MIB <= heap["retained"]["max_bytes"] <= 240 * MIB
    assert heap["retained"]["dirty_limit_bytes"] >= heap["retained"]["max_bytes"]
    assert heap["retained"]["unused_bytes"] == heap["retained"]["lazy_frees"] == 0
    assert heap["watch"]["purges"] == 0 and heap["watch"]["readings"] >= 1 and heap["watch"]["lazy_frees"] == 0
    assert heap["watch"]["headroom_bytes"] >= heap["watch"]["min_headroom_bytes"] > 0
    assert heap["watch"]["headroom_source"] != "nothing"


def test_settings_say_why(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("start()", GPUFEED_REPORT=report)
    settings = settings_of(heap_of(report))
    assert settings["dirty_decay_ms"]["value"] == "-1" and settings["muzzy_decay_ms"]["value"] == "0"
    assert all(row["from"] == "gpufeed" and row["reason"] for row in settings.values())


def test_a_users_setting_wins_key_by_key(feed, tmp_path):  # noqa: F811
    """jemalloc's decay then decides about its free pages, but the pressure watch goes on."""
    report = tmp_path / "r.json"
    told(feed, """
    start()
    blocks = [libc.malloc(1 << 20) for _ in range(96)]
    for block in blocks:
        ctypes.memset(block, 1, 1 << 20)
    for block in blocks:
        libc.free(ctypes.c_void_p(block))
    time.sleep(1.5)
""", GPUFEED_REPORT=report, MALLOC_CONF="dirty_decay_ms:9999,tcache_max:65536")
    heap = heap_of(report)
    settings = settings_of(heap)
    theirs = {name for name, row in settings.items() if row["from"] == "MALLOC_CONF"}
    assert theirs == {"dirty_decay_ms", "tcache_max"}
    assert settings["dirty_decay_ms"]["value"] == "9999"
    assert settings["tcache_max"]["value"] == "65536"
    assert settings["muzzy_decay_ms"]["value"] == "0"
    assert not heap["retained"]["managed"] and heap["retained"]["max_bytes"] >= 80 * MIB
    assert heap["watch"]["readings"] >= 1


def test_allocators_inside_libraries_are_named(feed, compile_c, tmp_path):  # noqa: F811
    """The library finds such an allocator by an exported symbol or by the file's name. An object that exports malloc
    itself is not listed."""
    report = tmp_path / "r.json"
    body = "void *%s(unsigned long n) { return 0; } void free(void *);"
    libraries = [compile_c(body % name, "-shared", "-fPIC", name=file) for name, file in (
        ("mi_malloc", "libinside.so"), ("hidden", "libarrow.so.2300"),
        ("je_malloc(unsigned long m) { return 0; } void *malloc", "libopen.so"),
        ("harmless", "libharmless.so"))]
    feed(f"""
    import ctypes
    start()
    for library in {[str(one) for one in libraries]}:
        ctypes.CDLL(library)
    """, GPUFEED_REPORT=report)
    assert heap_of(report)["embedded"] == [
        {"object": "libinside.so", "allocator": "mimalloc", "symbol": "mi_malloc"},
        {"object": "libarrow.so.2300", "allocator": "jemalloc or mimalloc", "symbol": None}]


def test_purged_pages_fault_again(feed, tmp_path):  # noqa: F811
    """The report estimates page faults: retained pages cost nothing, purged pages fault again."""
    script = """
    start()
    for _ in range(8):
        fill(64)
    """
    found = []
    for conf in "", "dirty_decay_ms:0,muzzy_decay_ms:0":
        report = tmp_path / f"r{len(found)}.json"
        feed(FILL + script, GPUFEED_REPORT=report, MALLOC_CONF=conf)
        found.append(heap_of(report)["first_touch"])
    kept, purged = found
    assert kept["samples"] >= 8 and kept["purged_bytes"] < 32 * MIB
    assert 64 * MIB <= kept["absent_bytes"] + 32 * MIB
    assert 5 * 64 * MIB <= purged["purged_bytes"] <= 8 * 64 * MIB
    assert purged["timed_faults"] >= 1 and purged["us"] > 0 and purged["ns_per_mib"] > 0


@pytest.mark.parametrize("how", ["cut short", "moved", "unused", "grown"])
def test_untouched_pages_do_not_count_as_missing(feed, tmp_path, how):  # noqa: F811
    """If a buffer is read into and then shrunk, only the part that was read counts. If it grows,
    all its pages count."""
    report = tmp_path / "r.json"
    feed(FILL + f"""
    libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.realloc.restype = ctypes.c_void_p
    start()
    for _ in range(10):
        if {how!r} == "grown":
            block = libc.malloc(ctypes.c_size_t(16 << 20))
            ctypes.memset(block, 1, 16 << 20)
            block = libc.realloc(block, 64 << 20)
            ctypes.memset(block, 1, 64 << 20)
        else:
            block = libc.malloc(ctypes.c_size_t(64 << 20))
        if {how!r} in ("cut short", "moved"):
            ctypes.memset(block, 1, 4 << 20)
            block = libc.realloc(block, 4 << 20 if {how!r} == "cut short" else 4096)
        libc.free(block)
    """, GPUFEED_REPORT=report, GPUFEED_PROFILE="inference", MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0")
    found = heap_of(report)["first_touch"]
    assert found["samples"] >= 10
    if how == "grown":
        assert 10 * 60 * MIB <= found["absent_bytes"] <= 10 * 96 * MIB, found
    else:
        assert found["absent_bytes"] <= 10 * 20 * MIB, found  # if untouched pages counted, each block would add 64 MiB


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_huge_pages_by_profile(feed, tmp_path, profile):  # noqa: F811
    report = tmp_path / "r.json"
    feed(FILL + """
    start()
    fill(64)
    """, GPUFEED_REPORT=report, GPUFEED_PROFILE=profile)
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        by_madvise = "[madvise]" in file.read()
    huge = heap_of(report)["huge_pages"]
    if profile == "inference" or not by_madvise:
        assert not huge["on"] and huge["eligible_bytes"] == huge["advised_bytes"] == 0
    else:
        assert huge["eligible_bytes"] >= 64 * MIB and huge["advised_bytes"] in (0, huge["eligible_bytes"])
    assert huge["reason"]


def test_pages_that_a_thread_freed_outlive_it(feed):  # noqa: F811
    """jemalloc by itself purges all pages that an arena retains when its last thread ends."""
    found = told(feed, """
    import resource
    import threading
    start()
    faults = []
    for _ in range(12):
        thread = threading.Thread(target=fill, args=(64,))
        thread.start()
        thread.join()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    say["faults"] = faults
""", GPUFEED_PROFILE="inference")
    rounds = (found["faults"][-1] - found["faults"][0]) / 16384
    # The first thread of each arena faults in its pages. A thread that starts while the last one still ends gets
    # another arena, so there may be several. If all pages were purged, there would be eleven rounds of faults.
    assert rounds < 5.5, found


OTHERS = {"libtcmalloc_minimal.so.4": ("TCMALLOC_SAMPLE_PARAMETER", "0"),
          "libmimalloc.so.2": ("MIMALLOC_SHOW_STATS", "1"),
          "libjemalloc.so.2": ("MALLOC_CONF", "stats_print:true")}


@pytest.mark.parametrize("order", ["behind", "before"])
@pytest.mark.parametrize("library", OTHERS)
def test_another_allocator_serves(feed, tmp_path, library, order):  # noqa: F811
    """The other allocator's settings are its own: the library neither uses nor mentions them."""
    if not glob.glob(f"/usr/lib/*-linux-gnu/{library}"):
        pytest.skip(f"no {library} on this machine")
    report = tmp_path / "r.json"
    name, value = OTHERS[library]
    script = """
    start()
    fill(64)
    import threading
    threads = [threading.Thread(target=fill, args=(8,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if os.fork() == 0:
        fill(8)
        os._exit(0)
    assert os.wait()[1] == 0
    """
    preload = f"{PRELOAD}:{library}" if order == "behind" else f"{library}:{PRELOAD}"
    found = feed(FILL + script, GPUFEED_REPORT=report, LD_PRELOAD=preload, **{name: value})
    heap = heap_of(report)
    assert heap["mode"] == "passthrough" and heap["reason"].startswith(library), heap["reason"]
    assert "settings" not in heap and heap["embedded"] == []
    ours = [line for line in found.stderr.splitlines() if line.startswith("gpufeed")]
    assert not any(name in line for line in ours), ours
    if library != "libtcmalloc_minimal.so.4":  # tcmalloc's setting prints nothing
        assert "heap stats" in found.stderr or "jemalloc statistics" in found.stderr


FORK = """
    import os

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def forked():
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(resident()).encode())
            os._exit(0)
        os.wait()
        return int(os.read(read, 32))
    start()
    fill(48)
    say["parent"], say["child"] = resident(), forked()
"""


def test_a_child_purges_its_parents_pages(feed):  # noqa: F811
    found = told(feed, FORK)
    assert found["parent"] - found["child"] > 40 * MIB


def test_a_thread_fills_without_faults(feed):  # noqa: F811
    found = told(feed, """
    import resource
    import threading
    start()
    faults = []

    def loop():
        for _ in range(20):
            fill(64)
            faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt)
    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
    say["faults"] = faults
""")
    # On a busy machine, the engine's budget may begin after the first fills. Huge pages take 32 faults to fill.
    assert found["faults"][-1] - found["faults"][9] < 256
