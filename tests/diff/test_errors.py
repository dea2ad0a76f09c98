# SPDX-License-Identifier: Apache-2.0
"""The library causes no additional driver error, because tools would show it as the program's mistake."""

import collections

import pytest
from conftest import APPS, BUILD, rounds

EAGER = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_THREADS": 4}
NATIVE = {}  # the errors and the output of each command without the library

# A program with every kind of call that the library hooks or reacts to, and with mistakes.
PROGRAM = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20

def said(*results):
    print(*results, flush=True)

context, other, made = c_void_p(), c_void_p(), c_void_p()
said(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context))
done = c_void_p()
said(cuda.cuStreamCreate(byref(made), 1), cuda.cuEventCreate(byref(done), 0))
heap = ctypes.create_string_buffer(32 * MIB)
at = ctypes.addressof(heap)
for size in (4096, MIB, 8 * MIB, 32 * MIB):
    device, pinned = c_uint64(), c_void_p()
    said(cuda.cuMemAlloc_v2(byref(device), c_size_t(size)))
    for round in range(3):
        for host in (at, at + 1) if size < 32 * MIB or round == 0 else (): # the ring then has its size
            count = c_size_t(size - 1)
            said(cuda.cuMemcpyHtoD_v2(device, c_void_p(host), count), cuda.cuMemcpyDtoH_v2(c_void_p(host), device, count),
                 cuda.cuMemcpyHtoDAsync_v2(device, c_void_p(host), count, made),
                 cuda.cuMemcpyDtoHAsync_v2(c_void_p(host), device, count, made),
                 cuda.cuMemcpy(device, c_uint64(host), count), cuda.cuMemcpy(c_uint64(host), device, count),
                 cuda.cuMemcpyAsync(device, c_uint64(host), count, None), cuda.cuCtxSynchronize())
        said(cuda.cuMemHostAlloc(byref(pinned), c_size_t(size), 0),
             cuda.cuMemcpyHtoD_v2(device, pinned, c_size_t(size)), cuda.cuMemFreeHost(pinned),
             cuda.cuMemHostRegister_v2(c_void_p(at), c_size_t(size), 0), cuda.cuMemHostUnregister(c_void_p(at)))
    said(cuda.cuMemFreeHost(None))
    if sys.argv[1:] == ["mistaken"]:
        said("mistakes", cuda.cuMemFreeHost(pinned), cuda.cuMemFreeHost(c_void_p(at)),
             cuda.cuMemcpyHtoD_v2(device, c_void_p(at), c_size_t(size + 1)),
             cuda.cuMemcpyDtoH_v2(c_void_p(at), c_uint64(device.value + 1), c_size_t(size)),
             cuda.cuMemHostUnregister(c_void_p(at)), cuda.cuMemcpyHtoDAsync_v2(device, c_void_p(at), c_size_t(size + 1), made))
    said(cuda.cuMemFree_v2(device))
if sys.argv[1:] == ["mistaken"]: # waits without a context, far enough apart that the library would look into each
    import time
    said(cuda.cuCtxSetCurrent(None))
    for wait in [cuda.cuStreamSynchronize, cuda.cuStreamSynchronize_ptsz, cuda.cuEventSynchronize]:
        for handle in [done] if wait == cuda.cuEventSynchronize else [None, made]:
            time.sleep(0.05)
            said(wait(handle))
    said(cuda.cuCtxSynchronize(), cuda.cuCtxSetCurrent(context))
    time.sleep(0.05)
    said(cuda.cuEventSynchronize(None))
said(cuda.cuStreamDestroy_v2(made), cuda.cuCtxSetCurrent(None), cuda.cuCtxCreate_v2(byref(other), 0, 0),
     cuda.cuMemHostAlloc(byref(pinned), c_size_t(64), 0), cuda.cuMemFreeHost(pinned), cuda.cuCtxDestroy_v2(other),
     cuda.cuDevicePrimaryCtxRelease_v2(0))
"""


@pytest.fixture
def errors(run, front, tmp_path):
    """errors(*command, preload=..., **environment) -> how often each call returned each error, and
    the output."""
    telling = front("telling")

    def go(*command, preload, **environment):
        if not preload and command in NATIVE:  # without the library, no setting makes a difference
            return collections.Counter(NATIVE[command][0]), NATIVE[command][1]
        told = tmp_path / "errors"
        told.write_text("")
        done = run(*command, preload=preload, LD_LIBRARY_PATH=telling, TELL_ERRORS=told, **environment)
        assert done.returncode == 0, done.stderr
        found = collections.Counter(told.read_text().splitlines())
        if not preload:
            NATIVE[command] = found.copy(), done.stdout
        return found, done.stdout
    return go


@pytest.mark.parametrize("environment", [{}, EAGER, {"GPUFEED_PIN": "off"}, {"GPUFEED_STAGE": "off"}])
def test_a_clean_program_has_none(errors, environment):
    native, expected = errors("/usr/bin/python3", "-c", PROGRAM, preload=False)
    told, output = errors("/usr/bin/python3", "-c", PROGRAM, preload=True, **environment)
    assert (native, told, output) == ({}, {}, expected)


@pytest.mark.parametrize("environment", [{}, EAGER, {"GPUFEED_PIN": "off"}])
def test_a_mistaken_program_has_its_own(errors, environment):
    native, expected = errors("/usr/bin/python3", "-c", PROGRAM, "mistaken", preload=False)
    told, output = errors("/usr/bin/python3", "-c", PROGRAM, "mistaken", preload=True, **environment)
    assert sum(native.values()) >= 20
    assert (told, output) == (native, expected)


@pytest.mark.parametrize("what", ["bytes", "kinds"])
def test_staged_copies_have_none(errors, what):
    program = BUILD / "tests" / "preload" / "stage"
    assert errors(program, what, preload=True, **EAGER)[0] == errors(program, what, preload=False)[0]


# A thread first uses a context while another thread captures in it. With v2, v3 and v4, the thread creates the
# context, which makes it current. With early, a library's constructor does this under the loader's lock, so the
# engine is loaded later.
CAPTURING = """
import ctypes, sys, threading, time
from ctypes import byref, c_size_t, c_uint64, c_void_p
context, stream, graph, device = c_void_p(), c_void_p(), c_void_p(), c_uint64()
how, *library = sys.argv[1:]
if how == "early":
    made = ctypes.CDLL(library[0]).made
    made.restype = c_void_p
    context = c_void_p(made())
cuda, active = ctypes.CDLL("libcuda.so.1"), getattr(ctypes.CDLL(None), "gpufeed_active", None)
print(cuda.cuInit(0) if how != "early" else 0,
      cuda.cuCtxCreate_v2(byref(context), 0, 0) if how == "v2" else
      cuda.cuCtxCreate_v3(byref(context), None, 0, 0, 0) if how == "v3" else
      cuda.cuCtxCreate_v4(byref(context), None, 0, 0) if how == "v4" else 0)
while active and not active():
    time.sleep(0.001)
print(cuda.cuStreamCreate(byref(stream), 0), cuda.cuStreamBeginCapture_v2(stream, 0))
other = threading.Thread(target=lambda: print(cuda.cuCtxSetCurrent(context)))
other.start()
other.join()
print(cuda.cuStreamEndCapture(stream, byref(graph)), cuda.cuMemAlloc_v2(byref(device), c_size_t(4096)))
"""
EARLY = """
#include <dlfcn.h>
static void *context;
static __attribute__((constructor)) void make(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0);
    ((int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((int (*)(void *))dlsym(cuda, "cuCtxSetCurrent"))(context);
}
void *made(void) { return context; }
"""


@pytest.mark.parametrize("how", ["v2", "v3", "v4", "early"])
def test_nor_has_a_thread_beside_a_capture(errors, compile_c, how):
    """Another thread is capturing when the engine first sees the context."""
    library = [compile_c(EARLY, "-shared", "-fPIC", name="early.so")] if how == "early" else []
    native, expected = errors("/usr/bin/python3", "-c", CAPTURING, how, *library, preload=False)
    told, output = errors("/usr/bin/python3", "-c", CAPTURING, how, *library, preload=True)
    assert (native, told, output) == ({}, {}, expected)


# The library's query returns an error for the legacy stream during a capture, and for a stream of a destroyed
# context.
ASKED = ["cuStreamIsCapturing 906", "cuStreamIsCapturing 201"]


# GPUFEED_PIN=off leaves pinned memory to the driver, as under compute-sanitizer.
@pytest.mark.parametrize("seed", [1, 3])
def test_a_random_program_has_its_own(errors, seed):
    command = [APPS / "diff", "--seed", seed, "--calls", rounds(5000, 2500), "--largest", 5 << 20]
    native, expected = errors(*command, preload=False)
    told, output = errors(*command, preload=True, GPUFEED_PIN="off", **EAGER)
    assert output == expected
    for counted in (told, native):
        for question in ASKED:
            counted.pop(question, None)
    assert told == native
