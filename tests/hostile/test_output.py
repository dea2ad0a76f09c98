# SPDX-License-Identifier: Apache-2.0
"""Files that the command and the library write. Nothing that another user planted redirects them, and nothing
makes them wait. Also folders that the command reads, and that another user serves."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import COMMAND, START_COPIES, SYSCALL_KIT, needs_root
from test_stacks import FUSE

COPIES = "import ctypes" + START_COPIES + "copy(2)\n"
# A thread writes the metrics, which are removed at exit. Waits until they or a message are written.
AWAIT_METRICS = """
import os, stat, time
path, end = os.environ["GPUFEED_METRICS"], time.time() + 20
while not os.fstat(2).st_size and not (os.path.exists(path) and stat.S_ISREG(os.lstat(path).st_mode)) and time.time() < end:
    time.sleep(0.01)
"""
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def uses_gpu(run, tmp_path):
    """uses_gpu(cwd=, option=path) runs a program that uses the GPU and writes the file of that option."""
    def go(cwd=None, preexec_fn=None, **options):
        env = run.env(sim=True, PYTHONDONTWRITEBYTECODE=1, **options)
        program = COPIES + (AWAIT_METRICS if "GPUFEED_METRICS" in options else "")
        with open(tmp_path / "stderr", "w+", encoding="utf-8") as stderr:
            done = subprocess.run([sys.executable, "-c", program], env=env, cwd=cwd, preexec_fn=preexec_fn, stdout=subprocess.PIPE,
                                  stderr=stderr, text=True, timeout=60, check=True)
            done.stderr = (tmp_path / "stderr").read_text()
        return done
    return go


@pytest.fixture
def a_report(uses_gpu, tmp_path):
    uses_gpu(GPUFEED_REPORT=tmp_path / "report.json")
    return tmp_path / "report.json"


def is_plain(path):
    return path.is_file() and not path.is_symlink()


@needs_root
@pytest.mark.parametrize("plant", ["mkdir -p rec/proc; ln -s {victim} rec/proc/cmdline", "ln -s {victim} rec-xml; mkdir rec; ln -s ../rec-xml rec/topology.xml"])
def test_record_into_a_folder_with_a_planted_link(run, shared, other, victim, plant):
    other.sh(plant.format(victim=victim))
    done = run(COMMAND, "topo", "--record", shared / "rec", preload=False)
    assert victim.read_text() == "kept" and done.returncode == 0, done
    assert is_plain(shared / "rec" / "topology.xml") and is_plain(shared / "rec" / "proc" / "meminfo")


@needs_root
@pytest.mark.parametrize("link", ["rec", "rec/proc", "rec/sys"])
def test_record_below_a_planted_folder(run, shared, other, tmp_path, link):
    other.sh(f"mkdir -p $(dirname {link}); ln -s {tmp_path} {link}")
    done = run(COMMAND, "topo", "--record", shared / "rec", preload=False)
    assert not list(tmp_path.iterdir()) and done.returncode == 1 and "another user" in done.stderr, done


@needs_root
def test_record_over_a_planted_pipe(run, shared, other):
    other.sh("mkdir -p rec/proc; mkfifo rec/proc/cmdline rec/topology.xml")
    done = run(COMMAND, "topo", "--record", shared / "rec", preload=False, timeout=30)
    assert done.returncode == 0 and is_plain(shared / "rec" / "proc" / "cmdline")


@needs_root
@pytest.mark.parametrize("flag", ["--html", "--prometheus", "--perfetto"])
@pytest.mark.parametrize("plant", ["mkfifo out", "mkfifo pipe; ln -s pipe out", "ln -s /dev/full out", "ln -s {victim} out", "ln {own} out"])
def test_page_at_a_planted_path(run, shared, other, victim, a_report, flag, plant):
    other.sh("echo own > own")
    other.sh(plant.format(victim=victim, own="own"))
    done = run(COMMAND, "report", a_report, flag, shared / "out", preload=False, timeout=30)
    assert done.returncode == 0 and is_plain(shared / "out") and victim.read_text() == "kept", done
    assert (shared / "own").read_text() == "own\n"
    assert (shared / "out").stat().st_mode & 0o777 == (0o644 if flag == "--prometheus" else 0o600)


@needs_root
@pytest.mark.parametrize("spelling", ["/dev/shm", "/dev//shm", "/dev/./shm", "/dev/../dev/shm", "../dev/shm", "/proc/self/root/dev/shm"])
@pytest.mark.parametrize("plant", ["ln -s {victim} rep", "mkfifo pipe; ln -s pipe rep", "mkfifo rep"])
def test_report_in_dev_shm(uses_gpu, other, victim, spelling, plant):
    folder = pathlib.Path("/dev/shm/gpufeed-hostile")
    folder.mkdir()
    try:
        folder.chmod(0o1777)
        other.folder = folder
        other.sh(plant.format(victim=victim))
        pipe = None
        if (folder / "pipe").exists():
            pipe = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        elif "fifo" in plant:
            pipe = os.open(folder / "rep", os.O_RDONLY | os.O_NONBLOCK)
        uses_gpu(cwd="/dev", GPUFEED_REPORT=f"{spelling}/{folder.name}/rep")
        assert victim.read_text() == "kept" and is_plain(folder / "rep")
        assert pipe is None or os.read(pipe, 10) == b""
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
@pytest.mark.parametrize("name", ["rep", "folder/rep"])
@pytest.mark.parametrize("flag", [None, "--html", "--perfetto"])
def test_report_at_a_link_to_a_mount_that_does_not_answer(uses_gpu, run, shared, other, a_report, flag, name):
    """Another user may also plant a link to a mount of a dead server, or to one that is mounted at a look-up."""
    (shared / "mount").mkdir()
    with subprocess.Popen([sys.executable, "-c", FUSE, shared / "mount", "/etc/passwd", "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            other.sh("ln -s mount/file rep; ln -s mount folder")
            os.kill(server.pid, signal.SIGSTOP)
            (shared / "trace").write_text('{"traceEvents":[]}')
            words = ["--with", shared / "trace"] if flag == "--perfetto" else []
            done = run(COMMAND, "report", a_report, flag, shared / name, *words, preload=False, timeout=20) if flag else \
                uses_gpu(GPUFEED_REPORT=shared / name)
        finally:
            server.kill()
            subprocess.run(["umount", "-l", shared / "mount"], check=False)
    assert "did not respond" not in done.stderr and (is_plain(shared / "rep") if name == "rep" else "belongs to another user" in done.stderr), done


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
def test_log_on_a_mount_that_does_not_answer(uses_gpu, shared):
    """Only the thread gpufeed-log waits, also for what the engine logs at its start."""
    (shared / "mount").mkdir()
    with subprocess.Popen([sys.executable, "-c", FUSE, shared / "mount", "/etc/passwd", "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            os.kill(server.pid, signal.SIGSTOP)
            uses_gpu(GPUFEED_LOG=shared / "mount" / "log", GPUFEED_STALL_US=1000000, GPUFEED_REPORT=shared / "report")
        finally:
            server.kill()
            subprocess.run(["umount", "-l", shared / "mount"], check=False)
    assert '"state": "ended"' in (shared / "report").read_text()


# Each name but "report" is a link to the second argument, and root is said to own all.
LINKS = FUSE.replace('open(file, "rb").read()', "file.encode()").replace("0o40755 if node == 1 else 0o100755", "{1: 0o40755, 3: 0o100755}.get(node, 0o120777)") \
    .replace("elif call == 14 and node == 3: continue", "elif call == 5: out = text")


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
@pytest.mark.parametrize("writer", ["--html", "--record", "GPUFEED_REPORT", "GPUFEED_LOG"])
@pytest.mark.parametrize("kind", ["file", "folder", "inside"])
def test_a_link_of_a_mount_that_lies_about_owners(uses_gpu, run, shared, victim, a_report, writer, kind):
    """Another user may serve a FUSE file system (allow_other), and say that root owns its links. One in the same mount is followed."""
    (shared / "mount").mkdir()
    path = shared / "mount" / ("link/victim" if kind == "folder" else "link")
    target = "report" if kind == "inside" else f"{victim.parent}/missing/../victim" if writer == "--record" else \
        victim.parent if kind == "folder" else victim
    with subprocess.Popen([sys.executable, "-c", LINKS, shared / "mount", target, "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            done = run(COMMAND, "topo", "--record", path, preload=False, timeout=30) if writer == "--record" else \
                run(COMMAND, "report", a_report, writer, path, preload=False, timeout=30) if writer == "--html" else uses_gpu(**{writer: path})
        finally:
            server.kill()
            subprocess.run(["umount", "-l", shared / "mount"], check=False)
    assert victim.read_text() == "kept" and not (victim.parent / "missing").exists(), done
    assert done.stderr and ("FUSE" in done.stderr) == (kind != "inside" and writer != "--record"), done


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
@pytest.mark.parametrize("writer", ["--html", "GPUFEED_LOG"])
def test_a_link_of_a_mount_of_root(uses_gpu, run, shared, victim, a_report, writer):
    """Such as a home on GlusterFS, with a link to another disk. Root vouches for the owners that the server states."""
    path = shared / "mount" / "link"
    path.parent.mkdir()
    program = LINKS.replace("user_id=65534", "user_id=0")
    with subprocess.Popen([sys.executable, "-c", program, path.parent, victim, "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            done = run(COMMAND, "report", a_report, writer, path, preload=False, timeout=30) if writer == "--html" else uses_gpu(**{writer: path})
        finally:
            server.kill()
            subprocess.run(["umount", "-l", path.parent], check=False)
    assert len(victim.read_text()) > 100, done


# Lists FUSE file systems as virtiofs.
VIRTIOFS = SYSCALL_KIT + """
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char text[1 << 20];
static long length, from, file = -1;
long syscall(long number, ...) {
    READ_ARGUMENTS(number, at)
    if (number == SYS_read && at[0] == file) {
        const long size = length - from < at[2] ? length - from : at[2];
        memcpy((char *)at[1], text + from, size);
        return from += size, size;
    }
    const long result = PASS_ON(number, at);
    if (number == SYS_close && at[0] == file) file = -1;
    if (number != SYS_openat || !strstr((const char *)at[1], "/mountinfo")) return result;
    file = result, from = length = 0;
    for (long got; (got = read(file, text + length, sizeof(text) - 1 - length)) > 0;) length += got;
    for (char *one = text; (one = strstr(one, " - fuse hostile "));) memcpy(one, " - virtiofs none", 16);
    return result;
}"""


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
def test_a_link_of_virtiofs(run, shared, victim, a_report, compile_c):
    """A virtual machine's file systems: only root can mount one, and mountinfo names no user."""
    path = shared / "mount" / "link"
    path.parent.mkdir()
    with subprocess.Popen([sys.executable, "-c", LINKS, path.parent, victim, "none"], stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            done = run(COMMAND, "report", a_report, "--html", path, preload=False, timeout=30,
                       LD_PRELOAD=compile_c(VIRTIOFS, "-shared", "-fPIC", "-ldl", name="virtiofs.so"))
        finally:
            server.kill()
            subprocess.run(["umount", "-l", path.parent], check=False)
    assert len(victim.read_text()) > 100, done


@needs_root
@pytest.mark.parametrize("option", ["GPUFEED_REPORT", "GPUFEED_METRICS", "GPUFEED_LOG"])
def test_file_below_a_planted_folder(uses_gpu, shared, other, tmp_path, option):
    target = tmp_path / "target"
    target.mkdir()
    other.sh(f"ln -s {target} folder")
    done = uses_gpu(**{option: shared / "folder" / "out.prom"})
    assert not list(target.iterdir()) and "belongs to another user" in done.stderr, done.stderr


@needs_root
@pytest.mark.parametrize("plant", ["mkfifo log", "touch log; chmod 666 log", "ln -s {victim} log"])
def test_log_at_a_planted_file(uses_gpu, shared, other, victim, plant):
    other.sh(plant.format(victim=victim))
    pipe = os.open(shared / "log", os.O_RDONLY | os.O_NONBLOCK) if "fifo" in plant else None
    before = (shared / "log").lstat().st_size
    done = uses_gpu(GPUFEED_LOG=shared / "log")
    assert "GPUFEED_LOG: cannot append to" in done.stderr, done.stderr
    assert victim.read_text() == "kept" and (shared / "log").lstat().st_size == before
    assert pipe is None or os.read(pipe, 10) == b""


@needs_root
def test_log_with_a_planted_second_name(uses_gpu, shared, victim):
    """Without fs.protected_hardlinks, another user may give a file of root's a second name."""
    os.link(victim, shared / "log") if victim.stat().st_dev == shared.stat().st_dev else pytest.skip("two file systems")
    done = uses_gpu(GPUFEED_LOG=shared / "log")
    assert victim.read_text() == "kept" and "has a second name" in done.stderr


@needs_root
@pytest.mark.parametrize("option", ["GPUFEED_REPORT", "GPUFEED_METRICS", "GPUFEED_LOG"])
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_second_name_of_a_link_or_pipe_of_root(uses_gpu, shared, option, kind):
    """Without fs.protected_hardlinks, another user may give links and pipes of root's a second name, in a folder like /tmp."""
    own = shared / "own"
    own.mkdir(mode=0o755)
    (own / "target").mkdir() if kind == "folder" else (own / "target").write_text("kept")
    os.mkfifo(own / "it") if kind == "pipe" else (own / "it").symlink_to(own / "target")
    pipe = os.open(own / "it", os.O_RDONLY | os.O_NONBLOCK) if kind == "pipe" else None
    os.link(own / "it", shared / "planted.prom", follow_symlinks=False)
    done = uses_gpu(**{option: shared / "planted.prom" / "out.prom" if kind == "folder" else shared / "planted.prom"})
    assert not list((own / "target").iterdir()) if kind == "folder" else (own / "target").read_text() == "kept"
    assert pipe is None or os.read(pipe, 1) == b""
    assert (kind == "link" and option != "GPUFEED_LOG") or "second name" in done.stderr, done.stderr


@needs_root
@pytest.mark.parametrize("name", ["..", ".", "../.."])
def test_host_named_like_a_folder(uses_gpu, tmp_path, name):
    """%h of a host with such a name must not lead to another folder."""
    def rename():
        LIBC.unshare(0x04000000)  # CLONE_NEWUTS
        LIBC.sethostname(name.encode(), len(name))
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ("_" + name[1:].replace("/", "_"))).mkdir()
    uses_gpu(preexec_fn=rename, GPUFEED_REPORT=tmp_path / "a" / "b" / "%h" / "r.json")
    assert [path.relative_to(tmp_path / "a" / "b").parts[0] for path in tmp_path.rglob("r.json")] == ["_" + name[1:].replace("/", "_")]


@pytest.mark.parametrize("option", ["GPUFEED_REPORT", "GPUFEED_LOG"])
def test_own_links_and_pipes_are_written(uses_gpu, tmp_path, option):
    """Links and pipes of the process's user, in folders of this user."""
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "real" / "out").symlink_to(tmp_path / "file")
    uses_gpu(**{option: tmp_path / "folder" / "out"})
    assert (tmp_path / "real" / "out").is_symlink() and is_plain(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    uses_gpu(**{option: tmp_path / "pipe"})
    assert os.read(pipe, 1) == b"{"
    os.close(pipe)
    done = uses_gpu(**{option: tmp_path / "pipe"})  # nothing reads it, and nothing waits
    assert "no process reads the pipe" in done.stderr


@pytest.mark.parametrize("path", ["/dev/stderr", "/proc/self/fd/2", "/dev/fd/2"])
@pytest.mark.parametrize("option", ["GPUFEED_REPORT", "GPUFEED_LOG"])
def test_standard_error_is_written(uses_gpu, option, path):
    done = uses_gpu(**{option: path})
    assert "cannot" not in done.stderr and '"schema":' in done.stderr


def test_page_into_a_pipe_of_the_shell(run, a_report):
    """The page is larger than a pipe, whose reader is slow."""
    done = run("/bin/bash", "-c", f'"{COMMAND}" report "$1" --html >(sleep 0.3; wc -c >&2)', "sh", a_report, preload=False)
    assert done.returncode == 0 and "cannot write" not in done.stderr, done


@needs_root
def test_folder_of_a_comparison_that_is_replaced(run, shared, victim):
    """Another user may rename it in a folder without the sticky bit. The files of each run are removed."""
    shared.chmod(0o777)
    program = ("import glob, os; os.setuid(65534); path, = glob.glob('gpufeed*'); os.rename(path, 'x'); "
               f"os.symlink('{victim.parent}', path)")
    done = run(COMMAND, "compare", "--", sys.executable, "-c", program, preload=False, cwd=shared, TMPDIR=shared)
    assert victim.read_text() == "kept" and not list((shared / "x").iterdir())
    assert done.returncode == 1 and "Is a directory" in done.stderr, done  # in the second run


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this kernel has no FUSE")
def test_a_pipe_of_a_mount_that_lies_about_owners(run, shared, a_report):
    """Another user, who serves the pipe as root's, may never read or write it."""
    (shared / "mount").mkdir()
    words = [sys.executable, "-c", FUSE.replace("0o100755", "0o10755"), shared / "mount", "/dev/null", "none"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("no FUSE file system can be mounted here")
            pipe = os.open(shared / "mount" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
            written = run(COMMAND, "report", a_report, "--html", shared / "mount" / "pipe", preload=False, timeout=20)
            taken = os.read(pipe, 1)
            read = run(COMMAND, "report", shared / "mount" / "pipe", preload=False, timeout=20)
        finally:
            server.kill()
            subprocess.run(["umount", "-l", shared / "mount"], check=False)
    os.close(pipe)
    assert "belongs to another user" in written.stderr and not taken and "no pipe of this user" in read.stderr, (written, read)
