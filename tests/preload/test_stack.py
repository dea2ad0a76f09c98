# SPDX-License-Identifier: Apache-2.0
"""The program continues if the data for a stall's stack and Python lines is damaged or missing."""
import struct

from stallkit import GIVE_BACK, events

STALLING = r"""
    #include <stdlib.h>
    #include <string.h>
    static void stall(void) {
        char *volatile block = malloc(64 << 20);
        memset(block, 1, 64 << 20);
        free(block);
    }
"""

CALLS_BACK = "int call_back(void (*function)(void)) { function(); return 1; }"


def move_program_headers(path):
    """Moves the program headers to the end of the file, which is not mapped. The loader reads them from the file."""
    data = bytearray(path.read_bytes())
    at, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = data[at:at + size * count]
    data += bytes(-len(data) % (1 << 20))
    struct.pack_into("<Q", data, 32, len(data))
    path.write_bytes(data + headers)


def test_a_library_with_its_program_headers_out_of_sight(run, compile_c, tmp_path):
    library = compile_c(CALLS_BACK, "-shared", "-fPIC", "-O1", name="odd.so")
    move_program_headers(library)
    program = compile_c(STALLING + r"""
        #include <dlfcn.h>
        int main(int argc, char **argv) {
            int (*call)(void (*)(void)) = dlsym(dlopen(argv[1], RTLD_NOW), "call_back");
            return !call || !call(stall);
        }""", "-O1", name="through")
    found = run(program, library, GPUFEED_LOG=tmp_path / "log", MALLOC_CONF=GIVE_BACK,
                GPUFEED_STALL_US=20)
    assert found.returncode == 0, found.stderr
    event = events(tmp_path / "log")[-1]
    files = [module["path"].rpartition("/")[2] for module in event["modules"]]
    assert files[:2] == ["through", "odd.so"]
    assert [int(frame.split("+")[0]) for frame in event["stack"]][:2] != [1, 1]


def test_a_thread_with_the_smallest_stack(run, compile_c, tmp_path):
    """Stack, Python frames and path are not captured on the stalled thread's own stack."""
    program = compile_c(STALLING + r"""
        #include <limits.h>
        #include <pthread.h>
        static void *run(void *unused) { stall(); return unused; }
        int main(void) {
            pthread_attr_t attr;
            pthread_t thread;
            pthread_attr_init(&attr);
            return pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) ||
                   pthread_create(&thread, &attr, run, NULL) || pthread_join(thread, NULL);
        }""", "-fno-builtin", "-lpthread", name="small")
    found = run(program, GPUFEED_LOG=tmp_path / "log", MALLOC_CONF=GIVE_BACK, GPUFEED_STALL_US=20)
    assert found.returncode == 0, found.stderr
    assert any(event["call"] == "free" and event["stack"] for event in events(tmp_path / "log"))
