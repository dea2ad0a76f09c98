# SPDX-License-Identifier: Apache-2.0
"""Folders and files without an end, which another user may serve by FUSE (allow_other)."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, COMMAND, SYSCALL_KIT
from test_doctor import WITHOUT_OPENAT2
from test_stacks import FUSE

# A folder with one name, again and again.
ENDLESS = FUSE.replace("elif call == 14 and", """elif call == 27: out = bytes(16)
    elif call == 28: out = 128 * struct.pack("<QQII8s", 2, 1, 2, 8, b"NAME")
    elif call == 14 and""")
# A folder of 100 000 folders, each with 1024 names.
NESTED = FUSE.replace("elif call == 1:", """elif call == 1 and request[40:].startswith(b"1"):
        node = int(request[40:request.index(b"\\0", 40)])
        out = struct.pack("<5QII", node, 0, 100, 100, 0, 0, 0)[:40] + attributes(node)
    elif call == 1:""").replace("0o40755 if node == 1", "0o40755 if node == 1 or node > 3").replace("elif call == 14 and", """elif call == 27: out = bytes(16)
    elif call == 28:
        at = struct.unpack_from("<Q", request, 48)[0]
        out = b"".join(struct.pack("<QQII8s", 4, i + 1, 8, 4, b"%d" % (10000000 + i)) for i in range(at, at + 128)) if at < (100000 if node == 1 else 1024) else b""
    elif call == 14 and""")
# A folder whose server answers only the kernel's first request, until the test ends.
SILENT = FUSE.replace("elif call == 1:", "elif True: continue\n    elif call == 1:")
needs_fuse = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="only root can mount a FUSE file system")


@contextlib.contextmanager
def served(folder, program):
    with subprocess.Popen([sys.executable, "-c", program, folder, "/etc/passwd", "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            yield
        finally:
            server.kill()
            subprocess.run(["umount", "-l", folder], check=False)


@needs_fuse
@pytest.mark.parametrize("name", ["12", ".1"])
@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_folder_without_end(run, tmp_path, command, name):
    with served(tmp_path, ENDLESS.replace("NAME", name)):
        done = run(COMMAND, command, tmp_path, *([tmp_path] if command == "compare" else []), preload=False, timeout=60)
    assert done.returncode == 1 and ("has more than 200000 files" if command == "report" else "more than 100000 names in all") in done.stderr, done


@needs_fuse
def test_folders_of_many_names(run, tmp_path):
    """Each folder has fewer names than are read."""
    with served(tmp_path, NESTED):
        done = run(COMMAND, "compare", tmp_path, tmp_path, preload=False, timeout=60)
    assert done.returncode == 1 and "more than 100000 names in all" in done.stderr, done


@needs_fuse
@pytest.mark.parametrize("name", ["sys/bus/pci/devices", "proc/driver/nvidia/gpus", "dev", "sys/module"])
@pytest.mark.parametrize("command", ["doctor", "topo"])
def test_a_folder_without_end_in_a_recording(run, tmp_path, command, name):
    machine = tmp_path / "machine"
    shutil.copytree(BUILD / "tests" / "machines" / "dual8", machine)
    shutil.rmtree(machine / name, ignore_errors=True)
    (machine / name).mkdir(parents=True)
    with served(machine / name, ENDLESS.replace("NAME", ".1")):
        done = run(COMMAND, command, "--machine", machine, preload=False, timeout=60)
    assert done.returncode in (0, 1) and done.stdout, done


@needs_fuse
@pytest.mark.parametrize("name", ["", "proc", "sys/bus/pci/devices"])
@pytest.mark.parametrize("command", ["doctor", "topo"])
@pytest.mark.parametrize("kernel", ["new", "old"])
def test_a_recording_that_does_not_answer(tmp_path, compile_c, command, name, kernel):
    """SIGKILL does not end a process that waits for FUSE."""
    machine, env = tmp_path / "machine", dict(os.environ)
    shutil.copytree(BUILD / "tests" / "machines" / "dual8", machine)
    shutil.rmtree(machine / name, ignore_errors=True)
    (machine / name).mkdir(parents=True)
    if kernel == "old":
        env["LD_PRELOAD"] = str(compile_c(WITHOUT_OPENAT2, "-shared", "-fPIC", "-ldl", name="without_openat2.so"))
    with served(machine / name, SILENT):
        done = subprocess.Popen([COMMAND, command, "--machine", machine], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        done.wait(timeout=30)
    out, err = done.communicate()
    assert done.returncode in (0, 1, 2) and ("Permission denied" in err if not name else out), (done.returncode, out, err)


def test_a_log_without_end(run, tmp_path, compile_c):
    """A file of a FUSE file system takes no space, however many bytes it has. Here, its bytes take no time, either."""
    (tmp_path / "log").write_text("x")
    os.truncate(tmp_path / "log", 1 << 43)
    preload = compile_c(SYSCALL_KIT + """
    #include <string.h>
    #include <unistd.h>
    #include <sys/stat.h>
    static int log_fd = -1;
    ssize_t read(int fd, void *to, size_t size) {
        struct stat found;
        if (log_fd < 0 && !fstat(fd, &found) && found.st_size == 1L << 43) log_fd = fd;
        if (fd == log_fd) return *(char *)to = 'x', size;
        return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, to, size);
    }
    off_t lseek(int fd, off_t at, int from) { return from == SEEK_CUR ? 0 : at; }
    off_t lseek64(int fd, off_t at, int from) { return lseek(fd, at, from); }
    void *memchr(const void *in, int c, size_t size) {
        return size < 30000 ? ((void *(*)(const void *, int, size_t))dlsym(RTLD_NEXT, "memchr"))(in, c, size) : 0;
    }""", "-shared", "-fPIC", "-ldl", "-fno-builtin", name="endless.so")
    done = run(COMMAND, "report", tmp_path / "log", preload=False, timeout=60, LD_PRELOAD=preload)
    assert done.returncode == 1 and "File too large" in done.stderr, done


def test_a_recorded_file_of_single_bytes(run, tmp_path, compile_c):
    """A server may answer each read with one byte."""
    machine = tmp_path / "machine"
    shutil.copytree(BUILD / "tests" / "machines" / "dual8", machine)
    (machine / "topology.xml").write_text("x" * (16 << 20))
    preload = compile_c(SYSCALL_KIT + """
    #include <sys/syscall.h>
    #include <unistd.h>
    long syscall(long number, ...) {
        READ_ARGUMENTS(number, at)
        if (number == SYS_read && at[2] > 1) at[2] = 1, usleep(10);
        return PASS_ON(number, at);
    }""", "-shared", "-fPIC", "-ldl", name="single.so")
    run(COMMAND, "topo", "--machine", machine, preload=False, timeout=60, LD_PRELOAD=preload)
