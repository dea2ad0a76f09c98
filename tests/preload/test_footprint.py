# SPDX-License-Identifier: Apache-2.0
"""The library in programs that do not use its hooks: the header, exits, /bin/true, privileges."""

import os
import pathlib
import re
import subprocess

import pytest
from preloadkit import *


# --- the public header
HEADER = """
#include <gpufeed.h>
int main(void) { const char *v = gpufeed_get_version(); printf("%s %d %d", v ? v : "none", gpufeed_is_active(), gpufeed_get_node());
    void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0);
    printf(" %d %d\\n", gpufeed_is_active(), gpufeed_get_node()); }
"""


def test_header(fed):
    app = fed.program(HEADER, *INCLUDES)
    assert fed.go(app).stdout == "0.1.0 0 -1 1 7\n"
    assert fed.go(app, preload=False).stdout == "none 0 -1 0 -1\n"
    assert fed.go(app, GPUFEED="off").stdout == "0.1.0 0 -1 0 -1\n"


# --- harmless
EXITS = r"""
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #define SAY(text) (void)!write(1, text, sizeof text - 1)
    void _exit(int status) { SAY("_exit\n"); for (;;) syscall(SYS_exit_group, status); }
    void _Exit(int status) { SAY("_Exit\n"); for (;;) syscall(SYS_exit_group, status); }
"""


@pytest.mark.parametrize("name", ["_exit", "_Exit"])
@pytest.mark.parametrize("order", ["{preload}:{spy}", "{spy}:{preload}", "{spy}"])
def test_another_preloads_ends_are_met(run, compile_c, name, order):
    """The call comes from a program that has called no hook before, from its forked child, and from
    its child of vfork."""
    spy = compile_c(EXITS, "-shared", "-fPIC", name="exits.so")
    app = compile_c("""
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 2; i++) {
                int status, child = i ? vfork() : fork();
                if (child == 0) NAME(5);
                if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) return 1; }
            NAME(3); }""", f"-DNAME={name}", name=f"ends-{name}")
    done = run(app, preload=False, LD_PRELOAD=order.format(preload=PRELOAD, spy=spy))
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{name}\n" * 3, "")


def syscalls(text):
    return re.findall(r"^(?:\d+\s+)?(\w+)\((.*)$", text, re.M)


def test_true_is_left_alone(kit, tmp_path):
    def trace(*env):
        out = tmp_path / "trace"
        kit.go("/usr/bin/strace", "-f", *env, "-o", out, "/bin/true", preload=False,
               LD_LIBRARY_PATH="/nonexistent")
        return syscalls(out.read_text())
    without, with_library = trace(), trace("-E", f"LD_PRELOAD={PRELOAD}")

    def opened(calls):
        return [re.search(r'"(.*?)"', rest).group(1) for name, rest in calls if name == "openat"]
    new = set(opened(with_library)) - set(opened(without))
    assert new == {str(PRELOAD)}
    names = {name for name, _ in with_library}
    assert not names & {"clone", "clone3", "write", "socket", "sched_setaffinity", "set_mempolicy"}
    loading = {"openat", "read", "fstat", "newfstatat", "mmap", "mprotect", "close", "pread64",
               "munmap", "access", "getcwd"}
    extra = names - {name for name, _ in without}
    assert extra <= loading, extra


def test_more_rights_than_its_user(kit, tmp_path):
    """Setuid: the preload library may be loaded from a system folder, but its options are ignored.
    """
    kit.engine()
    kit.fake()
    victim = pathlib.Path("/usr/lib/x86_64-linux-gnu/libmemusage.so")
    if os.geteuid() != 0 or not victim.exists():
        pytest.skip("needs root, and a file of libc-bin's to mount the preload library over")
    app = kit.program("""
        #include <sys/auxv.h>
        extern int gpufeed_active(void) __attribute__((weak)); extern int cuInit(unsigned);
        int main(void) { int r = cuInit(0); printf("%ld %d %d %d\\n", getauxval(AT_SECURE), r, !!gpufeed_active,
            gpufeed_active ? gpufeed_active() : -1); }
        """, f"-L{kit.folder}", "-l:libcuda.so.1", f"-Wl,-rpath,{kit.folder}")
    preload = tmp_path / "preload.so"
    preload.write_bytes(PRELOAD.read_bytes())
    for file in (preload, app):
        file.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents, *app.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    script = f"""mount --bind {preload} {victim} || exit 99
        exec setpriv --reuid 65534 --clear-groups env LD_PRELOAD=libmemusage.so GPUFEED_VERBOSE=2 \\
            LD_LIBRARY_PATH={kit.folder} {app}"""
    result = kit.run("unshare", "-m", "sh", "-c", script, preload=False)
    if (result.returncode == 99 or "unshare:" in result.stderr or
            result.stdout.startswith("0 ")):
        pytest.skip("no private mounts, or setuid is not honoured here")
    assert (result.stdout, result.stderr) == ("1 0 1 0\\n".replace("\\n", "\n"), "")


def test_needs_libc_alone():
    out = subprocess.run(["readelf", "-dW", PRELOAD], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", out) == ["libc.so.6"]
    assert "BIND_NOW" not in out and "NODELETE" in out
    assert re.search(r"RUNPATH.*\$ORIGIN", out)
    assert "INIT" not in out and "FINI" not in out, "the preload library must have no constructor"
