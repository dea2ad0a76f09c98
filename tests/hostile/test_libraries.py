# SPDX-License-Identifier: Apache-2.0
"""LD_LIBRARY_PATH often has an empty element, which names the working directory. The engine and the private libraries
are not loaded from there. Also a library that a log names, and that is truncated while it is read."""

import os
import shutil
import struct
import subprocess
import sys

import pytest

from conftest import BUILD, COMMAND, PRELOAD, SIM_DIR, START_COPIES
from test_input import ONE_PROCESS, elf, race, stall

PLANTED = '__attribute__((constructor)) static void planted(void) { write(2, "PLANTED\\n", 8); }\n'
PRIVATE = BUILD / "src" / "host"
COPIES = "import ctypes" + START_COPIES + "copy(2)\n"


@pytest.fixture
def planted(compile_c, tmp_path):
    """A working directory with libraries that another user planted."""
    folder = tmp_path / "planted"
    folder.mkdir()
    library = compile_c("#include <unistd.h>\n" + PLANTED, "-shared", "-fPIC", name="planted.so")
    for name in ("libgpufeed-engine.so", "libgfenv.so", "libgfhwloc.so", "libgfnuma.so"):
        shutil.copy(library, folder / name)
    return folder


@pytest.fixture
def installed(tmp_path):
    """The library with its engine and the private libraries in one folder, as it is installed."""
    folder = tmp_path / "lib"
    folder.mkdir()
    for path in (PRELOAD, BUILD / "src" / "engine" / "libgpufeed-engine.so", *PRIVATE.glob("libg*.so")):
        shutil.copy(path, folder)
    return folder / PRELOAD.name


@pytest.mark.parametrize("search", ["{sim}:", ":{sim}", "{sim}::/usr/lib", "{sim}:.", "{planted}:{sim}"])
def test_engine_is_beside_the_library(run, planted, installed, tmp_path, search):
    search = search.format(sim=SIM_DIR, planted=planted)
    done = run(sys.executable, "-c", COPIES, preload=False, cwd=planted, LD_PRELOAD=installed, LD_LIBRARY_PATH=search,
               GPUFEED_REPORT=tmp_path / "report.json")
    assert done.returncode == 0 and "PLANTED" not in done.stderr and (tmp_path / "report.json").exists(), done.stderr


@pytest.mark.parametrize("search", ["{sim}:", "{sim}:."])
def test_engine_that_is_elsewhere(run, planted, search):
    """In a build tree, the engine is in another folder, and the loader searches for it."""
    done = run(sys.executable, "-c", COPIES, cwd=planted, LD_LIBRARY_PATH=search.format(sim=SIM_DIR))
    assert done.returncode == 0 and "PLANTED" not in done.stderr, done.stderr
    assert done.stderr.count("LD_LIBRARY_PATH names the working directory") == 1 and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("words", [["topo"], ["--version"], ["doctor", "--json"]])
def test_private_libraries_of_the_command(planted, words):
    done = subprocess.run([COMMAND, *words], cwd=planted, env={"LD_LIBRARY_PATH": ":"}, capture_output=True, text=True, timeout=60, check=False)
    assert "PLANTED" not in done.stderr and done.returncode in (0, 1), done


def test_a_library_that_is_truncated_before_its_names(run, tmp_path, compile_c):
    """Each name is in another page. A process has at most 65 530 mappings."""
    count, each = 33000, 8192
    elf(tmp_path / "e.so", count, bytes.fromhex("12345678"))
    file = bytearray((tmp_path / "e.so").read_bytes())
    for i in range(count):
        struct.pack_into("<IBBHQQ", file, 64 + 24 * (i + 2), each * i + 1, 2, 0, 1, 16 * i, 16)
    struct.pack_into("<QQ", file, len(file) - 64 + 24, len(file), count * each)  # the last section has the names
    (tmp_path / "e.so").write_bytes(file)
    os.truncate(tmp_path / "e.so", len(file) + count * each)
    (tmp_path / "log").write_text(ONE_PROCESS + "".join(
        stall(i, stack="[" + ",".join(f'"0+{16 * k:x}"' for k in range(128 * i, 128 * (i + 1))) + "]",
              modules=f'[{{"path":"{tmp_path}/e.so","build_id":"12345678"}}]') for i in range(count // 128)))
    done = run(COMMAND, "report", tmp_path / "log", preload=False, **race(compile_c, TRUNCATES=tmp_path / "e.so", KEEPS=len(file)))
    assert done.returncode == 0 and "2.1 ms" in done.stdout, done


# A child that has dropped its privileges fills the memory that it shares with its parent, again and again. The kernel would let it write
# nothing else of the parent.
SCRIBBLES = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void stall(int times) { while (times--) { char *block = calloc(1, 3 << 20); block[100] = 1; free(block); } }
static void scribble(int byte, time_t until) {
    char line[512], *start[64], *end[64];
    int count = 0;
    for (int fd = 950; fd < 65536; fd++) { /* the simulated driver has files below */
        snprintf(line, 64, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(line, line + 64, 400);
        if (length > 5 && !memcmp(line + 64 + length - 5, "/maps", 5)) _exit(3);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    while (count < 64 && fgets(line, sizeof(line), maps))
        if (strstr(line, "gpufeed-live")) _exit(2);
        else if (strstr(line, "rw-s") && strstr(line, "/dev/zero") && sscanf(line, "%p-%p", (void **)&start[count], (void **)&end[count]) == 2) count++;
    if (!getuid() && (setgid(65534) || setuid(65534))) _exit(1);
    while (time(0) < until)
        for (int i = 0; i < count; i++) memset(start[i], byte, end[i] - start[i]);
    _exit(0);
}
int main(int argc, char **argv) {
    int (*init)(unsigned), status;
    *(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    if (init(0)) return 1;
    stall(5);
    usleep(500000); /* GPUFEED_LIVE makes its file meanwhile */
    const time_t until = time(0) + 2;
    const pid_t child = fork();
    if (!child) scribble(atoi(argv[1]), until);
    while (time(0) < until) stall(5);
    if (waitpid(child, &status, 0) != child || status) return 1;
    stall(100);
    puts("done");
}
"""


@pytest.mark.parametrize("byte", [0, 2, 65, 255])
def test_a_child_that_fills_shared_memory(run, compile_c, tmp_path, byte):
    """Of the parent, it changes counts and lines of the log at most."""
    program = compile_c(SCRIBBLES, "-fno-builtin", "-ldl")
    for preload in (False, True):
        done = run(program, str(byte), preload=preload, LD_LIBRARY_PATH=SIM_DIR, GPUFEED_LOG=tmp_path / "%p.log", GPUFEED_STALL_US=1,
                   GPUFEED_LIVE="on", timeout=60)
        assert done.returncode == 0 and done.stdout == "done\n", done


# Its child looks for a descriptor of its parent's memory.
LOOKS = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, filter};
    char path[64], target[256];
    int status;
    if (argc == 1) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
        execl(argv[0], argv[0], "filtered", (char *)0);
        return 1;
    }
    free(malloc(100));
    const pid_t child = fork();
    for (int fd = 3; !child && fd < 65536; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, target, sizeof(target) - 1);
        if (length > 4 && !memcmp(target + length - 4, "/mem", 4)) _exit(2);
    }
    if (!child) _exit(0);
    return waitpid(child, &status, 0) != child || status;
}
"""


def test_a_descriptor_of_the_parents_memory(run, compile_c, tmp_path):
    """Without process_vm_readv, the library reads stacks by /proc/self/mem. In a child, this file would show later memory of the parent."""
    program = compile_c(LOOKS)
    for preload in (False, True):
        done = run(program, preload=preload, GPUFEED_LOG=tmp_path / "%p.log", GPUFEED_STALL_US=1)
        assert done.returncode == 0, done
