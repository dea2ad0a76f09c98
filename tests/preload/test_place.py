# SPDX-License-Identifier: Apache-2.0
"""Third-party libraries of the program and of gpufeed do not mix, in either order of loading."""
import pathlib
import tempfile

import pytest

from conftest import COMMAND, Runner

HERE = pathlib.Path(__file__).parent

# An older or newer release might have the same names with another meaning.
FOREIGN = """
#include <stdlib.h>
void *hwloc_topology_init(void *t) { abort(); }
int hwloc_topology_load(void *t) { abort(); }
void *hwloc_bitmap_alloc(void) { abort(); }
int numa_available(void) { abort(); }
long set_mempolicy(int mode, void *mask, long bits) { abort(); }
long mbind(void *at, long size, int mode, void *mask, long bits, int flags) { abort(); }
void *json_object(void) { abort(); }
int hwloc_of_the_next_release(void) { return 42; }
"""

LIBRARIES = ("libhwloc.so.15", "libnuma.so.1", "libjansson.so.4")


@pytest.fixture(name="foreign")
def build_foreign(compile_c):
    """A folder of libraries with the public SONAMEs and the code above."""
    with tempfile.TemporaryDirectory(prefix="gpufeed-foreign-") as name:
        folder = pathlib.Path(name)
        for library in LIBRARIES:
            built = compile_c(FOREIGN, "-shared", "-fPIC", f"-Wl,-soname,{library}", name=library)
            (folder / library).write_bytes(built.read_bytes())
        yield folder


def test_ours_first_in_line_are_not_the_programs(run, foreign):
    """The program's libraries are in the global scope before the library opens its own."""
    preload = " ".join(str(foreign / library) for library in LIBRARIES)
    clean = run(COMMAND, "topo", "--json", preload=False)
    crowded = run(COMMAND, "topo", "--json", preload=False, LD_PRELOAD=preload)
    assert clean.returncode == 0 and clean.stdout.startswith("{")
    assert (crowded.returncode, crowded.stdout, crowded.stderr) == (0, clean.stdout, clean.stderr)


def test_engine_beside_the_programs_libraries(foreign):
    """The program loads its own libraries before and after the engine, and both work."""
    for before in (True, False):
        program = f"""
            import ctypes, sys
            sys.path.insert(0, {str(HERE)!r})
            from feeder import start
            def own():
                return [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in {LIBRARIES!r}]
            libraries = own() if {before} else None
            start()
            libraries = libraries or own()
            print([library.hwloc_of_the_next_release() for library in libraries])
            print(*{{line.split("/")[-1].strip() for line in open("/proc/self/maps")
                     if "libgf" in line or "libgpufeed-engine" in line}})
        """
        runner = Runner()
        env = runner.env(sim=True)
        path = f"{foreign}:{env['LD_LIBRARY_PATH']}"
        found = runner("/usr/bin/python3", "-c", "\n".join(
            line[12:] for line in program.splitlines()), sim=True, LD_LIBRARY_PATH=path)
        assert found.returncode == 0, found.stderr
        values, ours = found.stdout.splitlines()
        assert values == "[42, 42, 42]"
        assert {"libgpufeed-engine.so", "libgfhwloc.so", "libgfnuma.so"} <= set(ours.split())
