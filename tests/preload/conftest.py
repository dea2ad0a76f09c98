# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library. Each test_*.py here is one meson test."""

import concurrent.futures
import fcntl
import os
import pathlib
import pty
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "aarch64"))
from exceptions import read_exceptions  # noqa: E402  pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build")).resolve()
PRELOAD = BUILD / "src" / "preload" / "libgpufeed.so"
ENGINE_DIR = BUILD / "src" / "engine"
COMMAND = BUILD / "src" / "tools" / "gpufeed"
SIM_DIR = BUILD / "tests" / "sim"
APPS = BUILD / "tests" / "preload"
# Meson sets MESON_EXE_WRAPPER if the build is for another processor. The tests then run their programs under that
# emulator.
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
LONG = os.environ.get("GF_LONG", "") not in ("", "0")



def rounds(before_release, suite):
    """Returns how often a test repeats what may go wrong only by chance: more in the suite full, which sets GF_LONG."""
    return before_release if LONG else suite


# The beginning of a Python program that copies 8 MiB to the GPU. The program imports ctypes.
START_COPIES = """
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0
host = ctypes.create_string_buffer(8 << 20)
def copy(times):
    for _ in range(times):
        assert cuda.cuMemcpyHtoD_v2(pointer, host, ctypes.c_size_t(len(host))) == 0
"""


def pytest_collection_modifyitems(items):
    """Skips what the emulator cannot run (tests/aarch64/exceptions.txt)."""
    for item in items if EMULATOR else ():
        exceptions = read_exceptions(f"{item.path.parent.name}/{item.path.stem.removeprefix('test_')}")
        reason = exceptions.get(item.originalname) or exceptions.get("*")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def emulate(command, env):
    """Returns the command and the environment that run a program under the emulator. Only the program gets the
    loader's variables."""
    if not EMULATOR:
        return command, env
    own = {name: env[name] for name in env if name.startswith("LD_")}
    with open(shutil.which(command[0]) or command[0], "rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF" or head[18:20] != PRELOAD.read_bytes()[18:20]:
        if own:
            pytest.skip("the emulator runs programs of the other processor alone")
        return command, env
    words = [word for name, value in own.items() for word in ("-E", f"{name}={value}")]
    rest = {name: value for name, value in env.items() if name not in own}
    # The programs' own alarms allow for no emulator.
    return [*EMULATOR, *words, *command], {"KIT_ALARM": "600", **rest}


class Runner:
    """Starts programs in a clean environment: no GPUFEED_*, no inherited preload."""

    def __init__(self):
        self.base = {k: v for k, v in os.environ.items()
                     if not k.startswith("GPUFEED") and k not in ("LD_PRELOAD", "MALLOC_CONF")}

    def env(self, preload=True, sim=False, **extra):
        env = dict(self.base)
        if preload:
            env["LD_PRELOAD"] = str(PRELOAD)
        if sim:
            env["LD_LIBRARY_PATH"] = str(SIM_DIR)
        env.update({k: str(v) for k, v in extra.items()})
        return env

    def __call__(self, *command, preload=True, sim=False, timeout=180, input=None, cwd=None, **extra):
        """Runs the command to its end; returns CompletedProcess with text output. Keywords are
        added to the environment."""
        command, env = emulate([str(c) for c in command], self.env(preload, sim, **extra))
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL if input is None else None, input=input,
                              capture_output=True, text=True, timeout=timeout, cwd=cwd, check=False)

    def both(self, *command, beside=False, **kw):
        """Runs the same command without and with the library; with `beside`, at the same time, for programs that sleep
        and share no file."""
        kw.pop("preload", None)
        with concurrent.futures.ThreadPoolExecutor(2 if beside else 1) as pool:
            arms = [pool.submit(self, *command, preload=preload, **kw) for preload in (False, True)]
            return arms[0].result(), arms[1].result()


def on_terminal(command, columns, env=None):
    """Runs the command on a terminal with this number of columns. Returns its output, with LF as end of line."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, stdout=side) as process:
        os.close(side)
        text = b""
        try:
            while part := os.read(main, 4096):
                text += part
        except OSError:  # the command has closed the terminal
            pass
        process.wait()
    os.close(main)
    return text.decode().replace("\r\n", "\n")


@pytest.fixture
def run():
    return Runner()


@pytest.fixture(scope="module")
def installs():
    """Holds a lock while a test installs. The build folder records only the last installation, which `ninja
    uninstall` removes."""
    with (BUILD / "meson-logs" / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def when_changed(flag):
    """Returns when the file that a flag names was last changed, or None."""
    return os.stat(flag).st_mtime_ns if os.path.isfile(flag) else None


@pytest.fixture(scope="session")
def compile_c():
    """compile_c(text, *flags, name="prog", cc="cc") -> path of a program or library built from C, a new file at each
    call. What the same text and flags have built is copied."""
    with tempfile.TemporaryDirectory(prefix="gpufeed-test-") as folder:
        made = {}

        def build(text, *flags, name="prog", cc="aarch64-linux-gnu-gcc" if EMULATOR else "cc"):
            source, target = pathlib.Path(folder, f"{name}.c"), pathlib.Path(folder, name)
            source.write_text(text)
            target.unlink(missing_ok=True)
            named = name if any(str(flag).startswith("-g") for flag in flags) else None  # debug information names the source
            key = (cc, text, named, *((str(flag), when_changed(flag)) for flag in flags))
            if key not in made:
                subprocess.run([cc, "-D_GNU_SOURCE", "-w", str(source), "-o", str(target), *flags], check=True)
                made[key] = pathlib.Path(folder, f"built-{len(made)}")
                shutil.copy2(target, made[key])
            else:
                shutil.copy2(made[key], target)
            return target
        yield build
