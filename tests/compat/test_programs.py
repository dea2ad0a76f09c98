# SPDX-License-Identifier: Apache-2.0
"""Ordinary programs have the same output and exit code under the preload, and no additional threads or opened
files."""

import os
import pathlib
import subprocess
import textwrap

import pytest

from conftest import AGAIN, COMMAND, GLIBC_PROBES, PROBES, need

HELLO_C = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { char *p = malloc(100); sprintf(p, "hello %d", 42); puts(p); free(p); return 7; }
"""
LEAK_C = """
#include <stdlib.h>
int main(void) { char *volatile p = malloc(123); p = 0; (void)p; return 3; }
"""
CUDA_C = """
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
static void *stay(void *arg) { pause(); return arg; }
int main(void)
{
    pthread_t thread;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || pthread_create(&thread, 0, stay, 0))
        return 1;
    return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0) ? 2 : 3;
}
"""
HELLO_GO = """
package main
import "os"
func main() {
    sums := make(chan int)
    for i := 0; i < 8; i++ {
        go func(n int) { b := make([]byte, 1<<20); sums <- len(b) * n }(i)
    }
    total := 0
    for i := 0; i < 8; i++ { total += <-sums }
    os.Stdout.WriteString("sum " + string(rune('0'+total>>20%10)) + "\\n")
    os.Exit(5)
}
"""
HELLO_JAVA = """
public class Hello {
    public static void main(String[] words) throws Exception {
        Thread[] all = new Thread[4];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Thread(() -> { byte[] b = new byte[1 << 20]; b[0] = 1; });
            all[i].start();
        }
        for (Thread one : all) one.join();
        System.out.println("hello " + all.length);
        System.exit(9);
    }
}
"""


@pytest.fixture(scope="session")
def files(folder):
    """Creates input for the programs: a text, a C source, a makefile, a git repository, a ninja file."""
    work = folder / "work"
    work.mkdir()
    (work / "words").write_text("".join(f"{n * 7919 % 1000} line {n}\n" for n in range(2000)))
    (work / "hello.c").write_text(HELLO_C)
    (work / "leak.c").write_text(LEAK_C)
    (work / "Hello.java").write_text(HELLO_JAVA)
    (work / "Makefile").write_text("all: a b c\na b c:\n\t@echo make $@; test -n $@\n")
    (work / "build.ninja").write_text(
        "rule r\n  command = echo ninja $out > $out\nbuild out/x: r\nbuild out/y: r out/x\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(work)]
    for step in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *step], check=True, env={**os.environ, "HOME": str(folder)})
    for name in ("hello", "leak"):
        subprocess.run(["cc", "-g", "-w", work / f"{name}.c", "-o", work / name], check=True)
    return work


# Name, command, exit code. The command runs in the work folder, and its program must be installed.
PROGRAMS = [
    ("bash", ["bash", "-c", "x=$(seq 100 | while read n; do echo $((n*n)); done); echo \"$x\" | tail -1;"
              " cat <<< here; exit 4"], 4),
    ("sh", ["sh", "-c", "echo a | tr a b; exit 3"], 3),
    ("ls", ["ls", "-la", "--time-style=+%s", "/usr/lib"], 0),
    ("cat", ["cat", "words", "missing"], 1),
    ("sort", ["sort", "-n", "--parallel=1", "words"], 0),
    ("wc", ["wc", "words", "hello.c"], 0),
    ("head", ["head", "-c", "1000", "words"], 0),
    ("cut", ["cut", "-d", " ", "-f", "2", "words"], 0),
    ("uniq", ["uniq", "-c", "words"], 0),
    ("sha256sum", ["sha256sum", "words", "hello"], 0),
    ("od", ["od", "-An", "-tx1", "-N", "256", "hello"], 0),
    ("du", ["du", "-ab", "words"], 0),
    ("stat", ["stat", "-c", "%n %s %a", "words"], 0),
    ("cp", ["cp", "-v", "words", "words.copy"], 0),
    ("expr", ["expr", "0"], 1),
    ("env", ["env", "-i", "A=b"], 0),
    ("timeout", ["timeout", "0.2", "sleep", "5"], 124),
    ("false", ["false"], 1),
    ("true", ["true"], 0),
    ("grep", ["grep", "-c", "line 1", "words"], 0),
    ("sed", ["sed", "-n", "s/line/row/p", "words"], 0),
    ("find", ["find", "/etc/apt", "-name", "*.list"], 0),
    ("xargs", ["xargs", "-a", "words", "-n", "200", "-P", "1", "echo"], 0),
    ("tar", ["tar", "-cf", "/dev/null", "-v", "words", "hello.c"], 0),
    ("gzip", ["bash", "-c", "gzip -nc words | gunzip | md5sum"], 0),
    ("make", ["make"], 0),
    ("perl", ["perl", "-e", "my %h = map { $_ => $_ x 50 } 1..20000; print scalar(keys %h), qq(\\n);"
              " if (!fork) { exit 0 } wait; exit 6"], 6),
    ("git", ["git", "log", "--stat", "--format=%an %s"], 0),
    ("git-status", ["git", "status", "--short", "--untracked-files=no"], 0),
    ("gcc", ["gcc", "-O2", "-c", "hello.c", "-o", "/dev/null", "-v"], 0),
    ("gcc-error", ["gcc", "-c", "words", "-x", "c", "words"], 1),
    ("ninja", ["bash", "-c", "rm -rf out .ninja_log .ninja_deps; ninja -j1; cat out/*"], 0),
    ("python3", ["/usr/bin/python3", "-c", "import json, threading\n"
                 "t = [threading.Thread(target=lambda: json.dumps(list(range(9999)))) for _ in range(4)]\n"
                 "[x.start() for x in t]; [x.join() for x in t]; print(len(t)); raise SystemExit(8)"], 8),
    ("node", ["node", "--single-threaded", "-e", "console.log([...Array(9).keys()].join()); process.exit(2)"], 2),
    ("java", ["java", "-Xint", "-XX:+UseSerialGC", "-XX:-UseContainerSupport", "-Xshare:off", "-XX:-UsePerfData", "-Xmx64m",
              "-cp", "classes", "Hello"], 9),
    ("nvidia-smi", ["nvidia-smi", "-L"], 0),
]
IDS = [name for name, *_ in PROGRAMS]


@pytest.fixture(scope="session")
def java_class(files):
    if pathlib.Path("/usr/bin/javac").exists():
        subprocess.run(["javac", "-d", "classes", "Hello.java"], cwd=files, check=True)


@pytest.mark.parametrize("name,command,code", PROGRAMS, ids=IDS)
def test_output_and_exit_code(run, files, java_class, name, command, code):
    need(command[0])
    assert run.alike(*command, cwd=files).returncode == code


def unexpected(bare, ours, preload):
    """Returns {call: difference} of the calls that the library added or removed, without the permitted ones."""
    loads = ours[f"open {preload}"]
    assert loads > 0, "the library was not loaded"
    found = {}
    for call in bare.keys() | ours.keys():
        more = ours[call] - bare[call]
        if call == f"open {preload}" or more == 0:
            continue
        if call in PROBES and 0 < more <= loads or call in GLIBC_PROBES and more < 0:
            continue
        found[call] = more
    return found


@pytest.mark.parametrize("name,command,code", PROGRAMS, ids=IDS)
def test_no_thread_and_no_file(run, files, java_class, name, command, code):
    need("strace")
    need(command[0])
    inside = ["bash", "-c", 'cd "$0" && exec "$@"', files, *command]
    (one, bare), (two, ours) = (run.traced(*inside, preload=preload) for preload in (False, True))
    assert one.returncode == two.returncode == code
    for _ in range(AGAIN):
        if not unexpected(bare, ours, f"TMP/{run.preload.relative_to(run.folder)}"):
            break
        _, bare = run.traced(*inside, preload=False)
    assert unexpected(bare, ours, f"TMP/{run.preload.relative_to(run.folder)}") == {}


def test_tree_of_probes(run, files):
    """A process that never allocates reads no file. A process that allocates reads jemalloc's three files once."""
    need("strace")
    for command, probes in ((["/bin/true"], 0), (["/usr/bin/python3", "-S", "-c", "1"], 1)):
        _, bare = run.traced(*command, preload=False)
        _, ours = run.traced(*command, preload=True)
        for probe in PROBES:
            assert ours[probe] - bare[probe] == probes, probe


def test_gdb(run, files):
    need("gdb")
    script = ["-nx", "-batch", "-ex", "break main", "-ex", "run", "-ex", "finish", "-ex", "info threads",
              "-ex", "continue"]
    bare, ours = run.both("gdb", *script, files / "hello", timeout=120)
    assert ours.returncode == bare.returncode
    assert "hello 42" in ours.stdout and "exited with code 07" in ours.stdout
    assert ours.stderr == bare.stderr
    assert "Breakpoint 1, main" in ours.stdout and "New Thread" not in ours.stdout


def test_strace(run, files):
    need("strace")
    bare, ours = run.both("strace", "-qq", "-f", "-e", "trace=write,exit_group", files / "hello")
    assert (ours.stdout, ours.returncode) == (bare.stdout, bare.returncode) == ("hello 42\n", 7)
    assert ours.stderr.count("exit_group(7)") == bare.stderr.count("exit_group(7)") == 1


def test_valgrind(run, files):
    """valgrind serves malloc itself, even under the library, and finds the same errors."""
    need("valgrind")
    bare, ours = run.both("valgrind", "-q", "--leak-check=full", "--error-exitcode=0", files / "leak",
                          timeout=120)
    assert ours.returncode == bare.returncode == 3
    for done in (bare, ours):
        assert "123 bytes in 1 blocks are definitely lost" in done.stderr
    assert ours.stderr.count("Invalid") == bare.stderr.count("Invalid") == 0
    assert ours.stderr.count("are definitely lost") == 1


def test_valgrind_cuda(run, compile_c):
    """valgrind would end the program at a clone with other flags than those of pthread_create."""
    need("valgrind")
    ours = run("valgrind", "-q", "--tool=none", compile_c(CUDA_C, "-pthread"), sim=True, GPUFEED_HEAP="off")
    assert (ours.returncode, ours.stderr) == (3, "")


def test_static_go(run, folder):
    need("go")
    source = folder / "hello.go"
    source.write_text(HELLO_GO)
    env = {**run.base, "CGO_ENABLED": "0", "GOCACHE": str(folder / "go-cache"), "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", folder / "hello-go", source], check=True, env=env)
    assert b"ld-linux" not in (folder / "hello-go").read_bytes()
    assert run.alike(folder / "hello-go").returncode == 5


def test_static_c(run, files):
    subprocess.run(["cc", "-w", "-static", files / "hello.c", "-o", files / "hello-static"], check=True)
    assert run.alike(files / "hello-static").stdout == "hello 42\n"
    need("busybox")
    assert run.alike("busybox", "sh", "-c", "seq 3 | while read a; do echo $a; done; exit 2").returncode == 2


def as_nobody(*command):
    if os.getuid() != 0:
        return command
    need("setpriv")
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *command)


@pytest.mark.parametrize("command,code", [
    (["id", "-u"], 0),
    (["su", "root", "-c", "id"], 1),
    (["mount"], 0),
    (["mount", "/dev/null", "/mnt"], 32),
    (["umount", "/proc"], 32),
    (["passwd", "-S", "root"], 1),
], ids=lambda v: "-".join(v) if isinstance(v, list) else str(v))
def test_ordinary_user(run, command, code):
    need(command[0])
    assert run.alike(*as_nobody(*command), cwd="/").returncode == code


def test_setuid_program(run, folder):
    """If LD_PRELOAD contains a slash, ld.so silently ignores it in a setuid program."""
    if os.getuid() != 0:
        pytest.skip("only root can make a setuid program")
    need("setpriv")
    program = folder / "setuid"
    subprocess.run(["cc", "-w", "-x", "c", "-", "-o", program], check=True, text=True, input=textwrap.dedent("""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            char line[4096], *copy = strdup("seen");
            FILE *maps = fopen("/proc/self/maps", "r");
            printf("%d %d %s\\n", getuid(), geteuid(), copy);
            while (fgets(line, sizeof(line), maps)) if (strstr(line, "gpufeed")) puts("preloaded");
            return 0;
        }"""))
    os.chown(program, 0, 0)
    os.chmod(program, 0o4755)
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip("the scratch folder is mounted nosuid")
    done = run.alike(*as_nobody(program), cwd="/")
    assert done.stdout.splitlines()[0] == "65534 0 seen"


def test_fork_bomb_of_shells(run):
    bomb = ("b() { if [ $1 -gt 0 ]; then b $(($1-1)) & b $(($1-1)) & wait; else /bin/echo leaf; fi; }; b 7;"
            " echo done")
    done = run.alike("bash", "-c", bomb, timeout=120)
    assert done.stdout.count("leaf") == 128 and done.stdout.endswith("done\n")


def test_64_at_once(run):
    script = "import sys; d = {i: str(i) * 9 for i in range(20000)}; print(len(d)); sys.exit(3)"
    children = [subprocess.Popen(["/usr/bin/python3", "-c", script], env=run.env(), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for _ in range(64)]
    ends = {(child.communicate(timeout=120), child.returncode) for child in children}
    assert ends == {((b"20000\n", b""), 3)}


def test_descriptors_closed_by_the_program(run):
    """Runs daemons that close all descriptors, and programs that start without standard streams."""
    for script in ("import os; os.closerange(0, 256)", "import os; os.closerange(3, 256); print('ok')"):
        run.alike("/usr/bin/python3", "-c", script)
    run.alike("bash", "-c", "exec <&- >&- 2>&-; /bin/ls / ; exit 5")


def test_empty_environment_and_odd_limits(run):
    run.alike("bash", "-c", 'exec env -i LD_PRELOAD="$LD_PRELOAD" /bin/ls -d /')
    run.alike("bash", "-c", "ulimit -n 4; /bin/true; echo $?")
    run.alike("bash", "-c", "ulimit -u 1 2>/dev/null; echo ok")
    run.alike("bash", "-c", "ulimit -v 400000; sort -n /etc/services | md5sum")


@pytest.mark.parametrize("other", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("first", ["ours first", "theirs first"])
def test_beside_another_allocator(run, files, other, first):
    path = pathlib.Path("/usr/lib/x86_64-linux-gnu") / other
    if not path.exists():
        pytest.skip(f"no {path}")
    pair = [str(run.preload), str(path)]
    preload = ":".join(pair if first == "ours first" else pair[::-1])
    for name in ("python3", "bash", "perl", "git"):
        command = next(command for key, command, _ in PROGRAMS if key == name)
        theirs = run(*command, cwd=files, preload=str(path))
        both = run(*command, cwd=files, preload=preload)
        assert (both.stdout, both.stderr, both.returncode) == (theirs.stdout, theirs.stderr, theirs.returncode)


ASAN_BUG_C = """
#include <stdlib.h>
int main(void) { char *volatile p = malloc(8); return p[8]; }
"""


@pytest.fixture(scope="session")
def asan(folder):
    source = folder / "asan.c"
    source.write_text(ASAN_BUG_C)

    def build(compiler, clean=False):
        need(compiler)
        target = folder / f"asan-{compiler}{'-clean' if clean else ''}"
        subprocess.run([compiler, "-w", "-g", "-fsanitize=address", files_source(folder, clean), "-o", target],
                       check=True)
        return target
    return build


def files_source(folder, clean):
    if not clean:
        return folder / "asan.c"
    source = folder / "clean.c"
    source.write_text(HELLO_C)
    return source


def test_asan_of_gcc_refuses(run, asan):
    """gcc's AddressSanitizer refuses any preload. This is documented, and the library cannot change
    it."""
    done = run(asan("gcc", clean=True))
    assert done.returncode != 0
    assert "ASan runtime does not come first in initial library list" in done.stderr


def test_asan_of_clang_finds_its_bug(run, asan):
    bare, ours = run.both(asan("clang"))
    for done in (bare, ours):
        assert "heap-buffer-overflow" in done.stderr
    assert ours.returncode == bare.returncode


def test_gpufeed_run_steps_aside_for_asan(run, asan):
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND} is not built")
    done = run(COMMAND, "run", "--", asan("gcc", clean=True), preload=False)
    assert (done.stdout, done.returncode) == ("hello 42\n", 7)
    assert "AddressSanitizer" in done.stderr or "ASan" in done.stderr
