# SPDX-License-Identifier: Apache-2.0
"""`gpufeed run --shm=huge`: the program has a private /dev/shm with huge pages, as root and as an ordinary user. The mount of
the machine is never changed."""

import array
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import COMMAND, EMULATOR

NOBODY = 65534
AS_USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
IN_NAMESPACE = ["unshare", "--mount", "--propagation", "private", "--"]
ROOT = os.geteuid() == 0


def works(*command):
    return bool(shutil.which(command[0])) and subprocess.run(command, check=False, capture_output=True).returncode == 0


def user_words():
    """Returns the words that run a command as a user without capabilities, or None."""
    words = AS_USER if ROOT else []
    return words if works(*words, str(COMMAND), "version") and works(*words, "unshare", "--user", "--mount", "true") else None


USER = user_words()
needs_root = pytest.mark.skipif(not ROOT or not works(*IN_NAMESPACE, "true"), reason="this container permits root no mount namespaces")
needs_user = pytest.mark.skipif(USER is None, reason="no user namespaces are permitted here, or an ordinary user cannot read the build")
kinds = pytest.mark.parametrize("words", [pytest.param([], marks=needs_root, id="root"), pytest.param(USER, marks=needs_user, id="user")])
pytestmark = [pytest.mark.skipif(bool(EMULATOR), reason="the emulator has no namespaces"),
              pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="nothing is mounted on /dev/shm"),
              pytest.mark.skipif("huge=" in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8"),
                                 reason="a mount has huge pages already")]

SHOW = """
import json, mmap, os, sys
mounts = [line.split() for line in open("/proc/self/mounts") if line.split()[1] == "/dev/shm"]
shm = os.statvfs("/dev/shm")
path = os.path.join("/dev/shm", f"gpufeed-test-{os.getpid()}")  # a command that has the whole path keeps the mount
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4 << 20)
memory = mmap.mmap(file, 4 << 20)
memory[:] = b"x" * (4 << 20)
smaps = open("/proc/self/smaps").read()
smaps = smaps[smaps.index(path):]
huge = int(smaps[smaps.index("ShmemPmdMapped:"):].split()[1])
print(json.dumps({"mounts": mounts, "bytes": shm.f_blocks * shm.f_frsize, "files": shm.f_files, "huge": huge, "path": path,
                  "mode": os.stat("/dev/shm").st_mode & 0o7777, "ids": [os.getuid(), os.getgid()]}), flush=True)
sys.stdin.read()
os.unlink(path)
"""


def shm_run(*command, words=(), flags=("--shm=huge",)):
    return [*words, COMMAND, "run", "--verbose=0", *flags, "--", *command]


@pytest.fixture
def inside(run):
    """Runs a command under --shm=huge, by default in the root folder, which every user can enter."""
    def call(*command, words=(), flags=("--shm=huge",), cwd="/", **env):
        return run(*shm_run(*command, words=words, flags=flags), preload=False, cwd=cwd, **env)
    return call


def shm_mounts():
    return [line for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines() if " /dev/shm " in line]


@kinds
def test_the_program_has_a_mount_of_its_own_with_huge_pages(run, words):
    before, old = shm_mounts(), os.statvfs("/dev/shm")
    with subprocess.Popen(shm_run(sys.executable, "-c", SHOW, words=words), env=run.env(preload=False), cwd="/", text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        told = json.loads(process.stdout.readline())
        assert shm_mounts() == before and not os.path.exists(told["path"])
        # From outside, the files are below the process's root.
        assert os.path.getsize(f"/proc/{process.pid}/root{told['path']}") == 4 << 20
        process.stdin.close()
    assert process.returncode == 0
    assert len(told["mounts"]) == len(before) + 1
    assert "huge=within_size" in told["mounts"][-1][3]
    assert told["mode"] == 0o1777
    assert told["ids"] == ([NOBODY, NOBODY] if words else [os.getuid(), os.getgid()])
    # Others may have taken or freed space since. Without a limit, both numbers are 0.
    assert bool(told["bytes"]) == bool(old.f_blocks) and told["bytes"] <= old.f_blocks * old.f_frsize
    assert bool(told["files"]) == bool(old.f_files) and told["files"] <= old.f_files
    if not told["huge"]:
        setting = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
        pytest.skip(f"the kernel gave no huge page ({setting.read_text(encoding='utf-8').strip() if setting.exists() else 'no setting'})")
    assert told["huge"] == 4096


@needs_root
def test_both_mounts_hold_at_most_the_size_of_the_old_one(run):
    script = f"""mount -t tmpfs -o size=64m,nr_inodes=1000,nosuid,nodev,noexec none /dev/shm
        head -c 16M /dev/zero > /dev/shm/held
        {COMMAND} run --verbose=0 --shm=huge -- sh -c 'stat -f -c "%b %S %c" /dev/shm; grep " /dev/shm " /proc/self/mounts | tail -n 1;
            cd /dev/shm; head -c 64M /dev/zero > new; stat -c %s new; ls'
        ls /dev/shm; stat -f -c "%f" /dev/shm"""
    done = run(*IN_NAMESPACE, "sh", "-c", script, preload=False)
    size, mount, written, *files = done.stdout.splitlines()
    blocks, block, inodes = map(int, size.split())
    assert blocks * block == 48 << 20 and inodes == 998  # the root folder and one file are in use
    assert re.search("rw,nosuid,nodev,noexec,.*huge=within_size", mount)
    assert int(written) == 48 << 20
    assert files == ["new", "held", str(48 * (1 << 20) // block)]


@needs_root
@pytest.mark.parametrize("prepare, said", [
    ("mount -t tmpfs -o size=1m none /dev/shm; head -c 1M /dev/zero > /dev/shm/all", "/dev/shm is full"),
    ("mount -t ramfs none /dev/shm", "/dev/shm is not a tmpfs"),
    ("while umount /dev/shm; do :; done", "nothing is mounted on /dev/shm"),
], ids=["full", "other", "none"])
def test_without_a_usable_mount_the_program_runs_with_the_present_one(run, prepare, said):
    script = f"({prepare}) 2>&-; before=$(stat -c %d /dev/shm); {COMMAND} run --shm=huge --verbose=0 -- sh -c \"test $before = \\$(stat -c %d /dev/shm) && exit 7\""
    done = run(*IN_NAMESPACE, "sh", "-c", script, preload=False)
    assert (done.returncode, done.stderr) == (7, f"gpufeed run: --shm=huge has no effect: {said}\n"), done


@needs_root
@pytest.mark.parametrize("huge", ["always", "within_size"])
def test_a_mount_with_huge_pages_is_kept_also_by_a_rank(run, huge):
    script = (f"mount -t tmpfs -o huge={huge},size=1g none /dev/shm; {COMMAND} run --print --shm=huge -- true | grep '^/dev/shm'; "
              f"LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 {COMMAND} run --verbose=2 --shm=huge -- sh -c 'grep -c \" /dev/shm \" /proc/self/mounts'")
    done = run(*IN_NAMESPACE, "sh", "-c", script, preload=False)
    line, count = done.stdout.splitlines()
    assert re.fullmatch(f"/dev/shm +not changed, rw,.*huge={huge}.*", line)
    assert int(count) == len(shm_mounts()) + 1
    assert re.search(f"^gpufeed run: /dev/shm: not changed, rw.*huge={huge}", done.stderr, re.M)


@kinds
def test_print_tries_the_mount_and_changes_nothing(inside, words):
    before = shm_mounts()
    done = inside("true", words=words, flags=("--print", "--shm=huge"))
    assert (done.returncode, done.stderr) == (0, "")
    user = "; in a user namespace" if words or not ROOT else ""
    assert re.search(rf"^/dev/shm    private mount, rw,.*huge=within_size.*{user}$", done.stdout, re.M), done.stdout
    assert shm_mounts() == before
    shown = inside("true", words=words, flags=("--verbose=2", "--shm=huge")).stderr
    assert "gpufeed run: /dev/shm: private mount, rw," in shown


@pytest.mark.parametrize("env", [
    {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "WORLD_SIZE": "2"}, {"LOCAL_RANK": "1"}, {"RANK": "3", "WORLD_SIZE": "8"},
    {"SLURM_LOCALID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "4"},
], ids=lambda env: next(iter(env)))
def test_a_rank_beside_others_is_refused(inside, env):
    for flags in (("--shm=huge",), ("--print", "--shm=huge")):
        done = inside("echo", "ran", flags=flags, **env)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch("gpufeed run: --shm=huge would separate this rank from the other ranks on this host: .*launcher\n", done.stderr)
    assert inside("echo", "ran", flags=(), **env).stdout == "ran\n"


@kinds
@pytest.mark.parametrize("env", [{"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "RANK": "1", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "1"}])
def test_a_rank_alone_on_its_host_has_the_mount(inside, words, env):
    done = inside("grep", "-c", "huge=within_size", "/proc/self/mounts", words=words, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("command, env, said", [
    (["true", "--data=/dev/shm/set"], {}, "--data"), (["true", "/dev/shm/set"], {}, "/dev/shm/set"), (["true"], {"TMPDIR": "/dev/shm/x"}, "TMPDIR")])
def test_a_command_that_names_a_file_there_keeps_the_mount(inside, command, env, said):
    done = inside(*command, **env)
    assert (done.returncode, done.stderr) == (0, f"gpufeed run: --shm=huge has no effect: the program would not find files in /dev/shm: {said}\n")


@kinds
def test_a_shell_that_was_there_before_has_the_mount(inside, words):
    """OLDPWD names no file of the program."""
    done = inside("grep", "-c", "huge=within_size", "/proc/self/mounts", words=words, OLDPWD="/dev/shm/before")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_command_that_works_there_keeps_the_mount(inside):
    """Its relative paths would be in the old mount."""
    done = inside("pwd", cwd="/dev/shm")
    assert (done.stdout, done.stderr) == ("/dev/shm\n", "gpufeed run: --shm=huge has no effect: the program would not find files in /dev/shm: /dev/shm/\n")


STATE = """
import ctypes, os
keys = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "CapPrm", "CapEff", "NoNewPrivs", "Seccomp")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
death, libc = ctypes.c_int(), ctypes.CDLL(None)
libc.prctl(2, ctypes.byref(death))  # PR_GET_PDEATHSIG
print(*(status[key].strip() for key in keys), death.value, libc.prctl(3), os.getpid() == int(os.environ["PID"]), os.umask(0),
      [number for number in range(64) if os.path.exists(f"/proc/self/fd/{number}")], os.getcwd(), os.getuid(), os.getgid())
"""
START = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, 10)
signal.signal(signal.SIGCHLD, getattr(signal, sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR1])
os.environ["PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


@kinds
@pytest.mark.parametrize("child_signal", ["SIG_DFL", "SIG_IGN"])
def test_the_process_is_otherwise_as_without_the_flag(run, words, child_signal):
    """A pending SIGCHLD of the child that tries the calls would survive execve."""
    told = [run(*words, sys.executable, "-c", START, child_signal, *shm_run(sys.executable, "-c", STATE, flags=flags), preload=False, cwd="/")
            for flags in ((), ("--shm=huge",))]
    assert told[1].stdout == told[0].stdout != ""
    assert told[1].stderr == told[0].stderr


@kinds
def test_exit_codes_and_signals_are_those_of_the_program(run, inside, words):
    assert inside("sh", "-c", "exit 42", words=words).returncode == 42
    missing, without = (inside("gpufeed-no-such-program", words=words, flags=flags) for flags in (("--shm=huge",), ()))
    assert (missing.returncode, missing.stderr) == (without.returncode, without.stderr) and missing.returncode in (126, 127)
    assert inside("sh", "-c", "exit 43", words=words, flags=("--init", "--shm=huge")).returncode == 43
    with subprocess.Popen(shm_run("sh", "-c", "echo ready; exec sleep 1000", words=words), env=run.env(preload=False), cwd="/",
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


@needs_root
def test_other_mounts_still_appear_on_both_sides(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    script = f"""mount --make-rshared /
        mkfifo ready go
        {COMMAND} run --verbose=0 --shm=huge -- sh -c 'mount -t tmpfs none in; echo > ready; cat go; grep -c "/out tmpfs" /proc/self/mounts' &
        cat ready
        grep -c "/in tmpfs" /proc/self/mounts; grep -c huge= /proc/self/mounts
        mount -t tmpfs none out; echo > go; wait"""
    done = run(*IN_NAMESPACE, "sh", "-c", script, preload=False, cwd=tmp_path)
    assert (done.stdout.split(), done.stderr) == (["1", "0", "1"], "")


# Runs a command in a user namespace with all users, whose limits are not the machine's.
NAMESPACE = """
import ctypes, os, sys
read, write = os.pipe()
here = os.getpid()
if os.fork() == 0:
    os.read(read, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{here}/{name}", "w") as file:
            file.write("0 0 65536")
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000):  # CLONE_NEWUSER
    sys.exit(77)
os.write(write, b"x")
os.wait()
with open("/proc/sys/user/" + sys.argv[1], "w") as file:
    file.write("0")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@needs_root
@pytest.mark.parametrize("limit, words", [("max_mnt_namespaces", []), ("max_mnt_namespaces", AS_USER), ("max_user_namespaces", AS_USER)])
def test_a_limit_of_namespaces_is_named(run, limit, words):
    show = "readlink /proc/self/ns/user /proc/self/ns/mnt"
    done = run(sys.executable, "-c", NAMESPACE, limit, "sh", "-c", f'{show}; exec "$@"', "sh", *shm_run("sh", "-c", f"{show}; exit 9", words=words),
               preload=False, cwd="/")
    if done.returncode == 77:
        pytest.skip("no user namespaces are permitted here")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[:2]) == (9, lines[2:]), done
    call = "USER" if limit == "max_user_namespaces" else "NS"
    assert done.stderr == (f"gpufeed run: --shm=huge has no effect: unshare(CLONE_NEW{call}): No space left on device: "
                           "a limit is reached (user.max_user_namespaces, user.max_mnt_namespaces, fs.mount-max)\n")


FILTER = """
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, RESULT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 77;
    return execvp(argv[1], argv + 1);
}
"""


@kinds
@pytest.mark.parametrize("call, result, said", [
    ("SYS_unshare", "SECCOMP_RET_ERRNO | EPERM", r"unshare\(CLONE_NEW(NS|USER)\): Operation not permitted: the process has a seccomp filter"),
    ("SYS_unshare", "SECCOMP_RET_ERRNO | ENOSYS", r"unshare\(CLONE_NEW(NS|USER)\): Function not implemented: the process has a seccomp filter"),
    ("SYS_unshare", "SECCOMP_RET_KILL_PROCESS", r"unshare\(CLONE_NEW(NS|USER)\): Operation not permitted: the process has a seccomp filter"),
    ("SYS_mount", "SECCOMP_RET_ERRNO | EINVAL", r"mount\(MS_PRIVATE\): Invalid argument"),
])
def test_a_refused_call_is_one_line_and_changes_nothing(run, compile_c, words, call, result, said):
    program = compile_c(FILTER, f"-DCALL={call}", f"-DRESULT=({result})")
    program.parent.chmod(0o755)
    show = "readlink /proc/self/ns/user /proc/self/ns/mnt"
    plain = run("sh", "-c", show, preload=False).stdout
    done = run(*words, program, *shm_run("sh", "-c", f"{show}; exit 9"), preload=False, cwd="/")
    if done.returncode == 77:
        pytest.skip("no seccomp filter can be installed here")
    assert (done.returncode, done.stdout) == (9, plain), done
    assert re.fullmatch(f"gpufeed run: --shm=huge has no effect: {said}\n", done.stderr)


@needs_root
def test_a_kernel_that_rejects_the_option_is_one_line(run, compile_c):
    """Only the mount of a tmpfs, whose first argument is a text, is refused."""
    program = compile_c(FILTER.replace("CALL, 0, 1),", "SYS_mount, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, "
                                       "offsetof(struct seccomp_data, args)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),"),
                        "-DRESULT=(SECCOMP_RET_ERRNO | EINVAL)")
    done = run(program, *shm_run("sh", "-c", "exit 9"), preload=False, cwd="/")
    if done.returncode == 77:
        pytest.skip("no seccomp filter can be installed here")
    assert (done.returncode, done.stderr) == (9, "gpufeed run: --shm=huge has no effect: mount(huge=within_size): Invalid argument: "
                                                 "the kernel has no huge pages in tmpfs\n")


@needs_root
@pytest.mark.parametrize("kept", [("--bounding-set=-sys_admin", "--inh-caps=-sys_admin"),
                                  (*AS_USER[1:-1], "--inh-caps=+ipc_lock", "--ambient-caps=+ipc_lock")], ids=["root", "user"])
def test_a_user_namespace_takes_no_capability_from_a_program(run, kept):
    """A container's root without CAP_SYS_ADMIN, and a user with CAP_IPC_LOCK for RDMA, keep their capabilities."""
    done = run("setpriv", *kept, *shm_run("sh", "-c", "readlink /proc/self/ns/user; exit 9"), preload=False, cwd="/")
    assert (done.returncode, done.stdout.strip()) == (9, os.readlink("/proc/self/ns/user"))
    assert done.stderr == "gpufeed run: --shm=huge has no effect: unshare(CLONE_NEWNS): Operation not permitted: CAP_SYS_ADMIN is missing\n"


@pytest.mark.parametrize("flag, said", [("--shm=small", "--shm=small is not valid"), ("--shm=", "--shm= is not valid"), ("--shm", "--shm needs a value")])
def test_other_values_are_refused(inside, flag, said):
    done = inside("true", flags=(flag,))
    assert (done.returncode, done.stderr) == (2, f"gpufeed run: {said}; allowed: huge\n")


@kinds
def test_tools_of_the_same_user_outside_find_the_program(run, words):
    with subprocess.Popen(shm_run(sys.executable, "-c", "print('ready', flush=True); input()", words=words), env=run.env(preload=False), cwd="/",
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        done = run(*words, COMMAND, "stacks", "--python", process.pid, preload=False, cwd="/")
        process.stdin.close()
    if done.returncode and "libunwind" in done.stderr:
        pytest.skip("this build has no gpufeed-stacks")
    assert done.returncode == 0 and "<module>" in done.stdout, done


LOADER = """
import hashlib, torch
class Set(torch.utils.data.Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, index):
        return torch.arange(index, index + 131072, dtype=torch.int32)
digest = hashlib.sha256()
for batch in torch.utils.data.DataLoader(Set(), batch_size=16, num_workers=2):
    assert batch.is_shared()
    digest.update(batch.numpy().tobytes())
print(digest.hexdigest())
"""


@kinds
def test_batches_of_loader_workers_have_the_same_bytes(inside, words):
    pytest.importorskip("torch")
    expected = hashlib.sha256()
    for index in range(32):
        expected.update(array.array("i", range(index, index + 131072)).tobytes())
    done = inside(sys.executable, "-c", LOADER, words=words)
    assert (done.returncode, done.stdout) == (0, expected.hexdigest() + "\n"), done
