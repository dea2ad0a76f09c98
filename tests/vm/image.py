# SPDX-License-Identifier: Apache-2.0
"""The guest's file system, as an initramfs: busybox, Debian's Python, the tests, the library."""

import importlib._bootstrap_external
import importlib.util
import os
import pathlib
import re
import stat
import subprocess
import sys
import sysconfig

PYTHON = "/usr/bin/python3.11"
STDLIB = pathlib.Path("/usr/lib/python3.11")
BUSYBOX = "/usr/bin/busybox"

# The modules that the guest's scripts, multiprocessing with its three start methods, and ctypes import at any time.
MODULES = """
    argparse array base64 bisect collections concurrent.futures.process contextlib copy csv ctypes
    ctypes.util dataclasses encodings.ascii encodings.latin_1 encodings.utf_8 encodings.idna errno
    faulthandler functools gc glob hashlib heapq inspect itertools json logging math mmap
    multiprocessing.dummy multiprocessing.forkserver multiprocessing.heap multiprocessing.managers
    multiprocessing.pool multiprocessing.popen_fork multiprocessing.popen_forkserver
    multiprocessing.popen_spawn_posix multiprocessing.queues multiprocessing.resource_sharer
    multiprocessing.resource_tracker multiprocessing.shared_memory multiprocessing.sharedctypes
    multiprocessing.spawn multiprocessing.synchronize operator os pathlib pickle pkgutil platform
    queue random re resource runpy secrets select selectors shlex shutil signal socket statistics
    string struct subprocess sys sysconfig tempfile textwrap threading time timeit traceback types
    typing uuid warnings weakref zlib
"""


class Image:
    """A cpio archive ("newc") in memory. Parent folders are added as needed; later files replace
    earlier ones."""

    def __init__(self):
        self.entries = {}

    def folder(self, path):
        path = path.strip("/")
        if path and path not in self.entries:
            self.folder(os.path.dirname(path))
            self.entries[path] = (stat.S_IFDIR | 0o755, b"", (0, 0))

    def put(self, path, data, mode=0o644):
        path = self._beside_links(path)
        self.folder(os.path.dirname(path))
        self.entries[path] = (stat.S_IFREG | mode, data, (0, 0))

    def link(self, path, target):
        path = self._beside_links(path)
        self.folder(os.path.dirname(path))
        self.entries[path] = (stat.S_IFLNK | 0o777, str(target).encode(), (0, 0))

    def device(self, path, major, minor):
        self.folder(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFCHR | 0o600, b"", (major, minor))

    def copy(self, source, path=None):
        """Adds a file of this machine, under the same or another path. It stays executable."""
        source = pathlib.Path(source)
        self.put(path or str(source), source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def copy_with_libraries(self, source, path=None):
        self.copy(source, path)
        for library in libraries_of(source):
            if self._beside_links(library) not in self.entries:
                self.copy(library)

    @staticmethod
    def _beside_links(path):
        """Returns the path in /usr, because Debian's /bin, /lib and others are links into /usr."""
        path = str(path).strip("/")
        return "usr/" + path if path.split("/")[0] in ("bin", "sbin", "lib", "lib64") else path

    def archive(self):
        parts = []
        for inode, (name, (mode, data, (major, minor))) in enumerate(self.entries.items(), 1):
            parts.append(_record(inode, name, mode, data, major, minor))
        parts.append(_record(0, "TRAILER!!!", 0, b"", 0, 0))
        return b"".join(parts)


def _record(inode, name, mode, data, major, minor):
    name = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
    record = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    record += b"\0" * (-len(record) % 4) + data
    return record + b"\0" * (-len(record) % 4)


def libraries_of(binary):
    """Returns the absolute paths of the libraries that this machine's loader would load, and of the loader."""
    listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.MULTILINE)


def add_system(image):
    """Adds folders, links and busybox, in Debian's layout."""
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc", "dev/shm"):
        image.folder(name)
    for name in ("bin", "sbin", "lib", "lib64"):
        image.folder("usr/" + name)
        image.entries[name] = (stat.S_IFLNK | 0o777, b"usr/" + name.encode(), (0, 0))
    image.device("dev/console", 5, 1)
    image.copy(BUSYBOX, "/bin/busybox")
    image.link("/bin/sh", "busybox")
    image.put("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")


def add_python(image):
    """Adds the interpreter, and the compiled modules of its library that MODULES import, without sources."""
    image.copy_with_libraries(PYTHON, "/usr/bin/python3.11")
    image.link("/usr/bin/python3", "python3.11")
    listing = subprocess.run(
        [PYTHON, "-I", "-S", "-c", f"""
import importlib, sys
for name in {MODULES.split()!r}:
    importlib.import_module(name)
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None) or "")
"""], capture_output=True, text=True, check=True).stdout
    files = {line for line in listing.splitlines() if line}
    files.add(str(STDLIB / "site.py"))
    files.add(str(STDLIB / "os.py"))
    for file in sorted(files):
        if file.endswith(".so"):
            image.copy_with_libraries(file)
        else:
            image.put(file + "c", _compiled(file))
    # CPython's start-up code looks for this folder.
    image.folder("usr/lib/python3.11/lib-dynload")


def _compiled(file):
    """Returns byte code. The image has no sources, so that the guest need not compare file times or compile."""
    source = pathlib.Path(file).read_bytes()
    code = compile(source, file, "exec", dont_inherit=True)
    return importlib._bootstrap_external._code_to_timestamp_pyc(code, 0, 0)


def check_interpreter():
    """Returns the reason why this interpreter cannot write the image's byte code, or None."""
    here = pathlib.Path(sys.executable).resolve()
    if here != pathlib.Path(PYTHON).resolve() and sysconfig.get_python_version() != "3.11":
        return f"the runner needs {PYTHON}, this is {here}"
    return None
