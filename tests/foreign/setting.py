# SPDX-License-Identifier: Apache-2.0
"""The settings in which each suite runs: without the library, with it, and with it beside a CUDA context."""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess

FOREIGN = pathlib.Path(__file__).resolve().parent
SOURCE = FOREIGN.parents[1]
NAMES = ("native", "library", "context")
DROPPED = ("GPUFEED", "LD_", "MALLOC_CONF", "PYENV", "PYTHON", "VIRTUAL_ENV")


class Missing(Exception):
    """A suite cannot run on this machine; the text says what is missing."""


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=PATH):
            raise Missing(f"no {program}: scripts/packages.sh --foreign")


PATH = "/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Setting:
    """A setting of NAMES, with a folder in which the suite may write. `feeds` has the programs that get a CUDA
    context of the simulated driver. Other programs of the suite only have the library."""

    def __init__(self, name, folder, library):
        self.name, self.folder, self.library = name, folder, library
        self.user = None
        self.made = folder / "a context was made"

    def env(self, *feeds, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}
        env.update(PATH=PATH, LC_ALL="C.UTF-8", HOME=str(self.folder), TMPDIR=str(self.folder))
        preload = []
        if self.name != "native":
            preload = [self.library / "preload" / "libgpufeed.so"]
        if self.name == "context" and feeds:
            preload.append(self.library / "feed.so")
            env.update(FOREIGN_FEEDS=",".join(feeds), FOREIGN_MADE=str(self.made),
                       LD_LIBRARY_PATH=str(self.library / "sim"))
        if preload:
            env["LD_PRELOAD"] = ":".join(map(str, preload))
        env.update({k: str(v) for k, v in extra.items()})
        return env

    def run(self, *command, feeds=(), timeout=300, input=None, **extra):
        """Runs a command as the suite's user, and returns CompletedProcess. A command that exceeds the time limit is
        killed, and has the return code 124."""
        options = {"env": self.env(*feeds, **extra), "cwd": self.folder, "text": True, "errors": "replace",
                   "user": self.user, "group": self.user and pwd.getpwuid(self.user).pw_gid,
                   "extra_groups": [] if self.user else None}
        with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE if input else subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                              **options) as process:
            try:
                text, _ = process.communicate(input, timeout=timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                text, code = process.communicate()[0], 124
        return subprocess.CompletedProcess(command, code, text)

    def build(self, source, *flags, compiler="cc"):
        """Compiles a program of tests/foreign/programs, and returns its path. All settings use the same program."""
        made = self.library / pathlib.Path(source).stem
        if not made.exists():
            subprocess.run([compiler, "-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", "-Wall", "-Wextra",
                            FOREIGN / "programs" / source, "-o", made, "-pthread", "-ldl", *flags], check=True)
        return made

    def as_user(self, name):
        """From now on, runs commands as this user, or as nobody, because some programs refuse to run as root."""
        if os.geteuid():
            return
        try:
            self.user = pwd.getpwnam(name).pw_uid
        except KeyError:
            self.user = pwd.getpwnam("nobody").pw_uid
        os.chown(self.folder, self.user, -1)


def copy_library(build, into):
    """Copies the library, its engine and the simulated driver to a folder that every user may read."""
    for file in (*(build / "src").glob("preload/*.so"), *(build / "src").glob("engine/*.so"),
                 *(build / "src").glob("host/*.so*")):
        if file.is_file():
            copy = into / file.relative_to(build / "src")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    shutil.copytree(build / "tests" / "sim", into / "sim", symlinks=True,
                    ignore=lambda _, names: [n for n in names if ".so" not in n or n.endswith(".p")])
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", FOREIGN / "programs" / "feed.c", "-o",
                    into / "feed.so", "-ldl"], check=True)
    subprocess.run(["chmod", "-R", "a+rX", into], check=True)
