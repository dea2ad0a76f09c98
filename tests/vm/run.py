# SPDX-License-Identifier: Apache-2.0
"""Boots one layout under plain emulation, and prints the guest's TAP. If a row failed, also prints the console. It
needs no privileges and no KVM."""

import argparse
import glob
import json
import os
import pathlib
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

import image
from layouts import LAYOUTS

QEMU = "qemu-system-x86_64"
HERE = pathlib.Path(__file__).resolve().parent
KERNELS = "/boot/vmlinuz-*-cloud-amd64"
CONSOLE_LINES = 200


def kernel():
    """Returns the newest installed kernel of Debian's cloud images, or None."""
    def version(path):
        return [int(number) for number in re.findall(r"\d+", path)]
    return max(glob.glob(KERNELS), key=version, default=None)


def missing():
    """Returns the reason why this machine cannot run the suite, or None."""
    if os.uname().machine != "x86_64":
        return "the virtual machines are for x86-64 hosts"
    if not shutil.which(QEMU):
        return f"{QEMU} is not installed (Debian: qemu-system-x86)"
    if not kernel():
        return f"no {KERNELS} (Debian: linux-image-cloud-amd64)"
    for path, package in ((image.BUSYBOX, "busybox-static"), (image.PYTHON, "python3")):
        if not os.access(path, os.X_OK):
            return f"{path} is missing (Debian: {package})"
    return image.check_interpreter()


def add_modules(root):
    """Adds the modules for swap in memory (zram) and for a disk with bad blocks (null_blk), if the kernel's package
    has them."""
    release = os.path.basename(kernel()).removeprefix("vmlinuz-")
    for path in ("mm/zsmalloc", "crypto/lzo-rle", "drivers/block/zram/zram", "fs/configfs/configfs",
                 "drivers/block/null_blk/null_blk"):
        module = pathlib.Path(f"/lib/modules/{release}/kernel/{path}.ko")
        if module.exists():
            root.copy(module, f"/lib/modules/{module.name}")


def add_library(root, build, folder):
    """Installs the library and the simulated driver. Returns the preload library's path."""
    stage = pathlib.Path(folder, "stage")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--strip",
                    "--destdir", str(stage)], check=True, stdout=subprocess.DEVNULL)
    preload = None
    for file in sorted(path for path in stage.rglob("*") if path.is_file() or path.is_symlink()):
        path = "/" + str(file.relative_to(stage))
        if "/lib" not in path and "/bin/" not in path:
            continue
        if file.is_symlink():
            root.link(path, os.readlink(file))
            continue
        root.copy(file, path)
        for library in image.libraries_of(file):
            if not library.startswith(str(stage)):
                root.copy(library)
        if file.name == "libgpufeed.so":
            preload = path
    root.copy(pathlib.Path(build, "tests", "sim", "libcuda.so.1"), "/opt/sim/libcuda.so.1")
    root.copy(pathlib.Path(build, "tests", "diff", "mapped"), "/vm/mapped")
    return preload


def add_bench(root, build, preload):
    """Adds what bench/nodes.py needs, in the layout of the source and build folders."""
    for script in sorted((HERE.parents[1] / "bench").glob("*.py")):
        root.copy(script, f"/vm/bench/{script.name}")
    for script in ("proc", "program"):
        root.copy(HERE / "guest" / f"{script}.py", f"/vm/tests/vm/guest/{script}.py")
    for name in ("h2d", "gputime"):
        root.copy_with_libraries(pathlib.Path(build, "bench", name), f"/vm/build/bench/{name}")
    root.link("/vm/build/src", os.path.dirname(preload))
    root.link("/vm/build/tests", "/opt/sim")


def build_image(options, folder):
    root = image.Image()
    image.add_system(root)
    image.add_python(root)
    root.put("/init", (HERE / "guest" / "init").read_bytes(), 0o755)
    for script in sorted((HERE / "guest").glob("*.py")):
        root.copy(script, f"/vm/{script.name}")
    add_modules(root)
    root.copy_with_libraries(options.program, "/vm/program")
    root.copy_with_libraries(options.refuse, "/vm/refuse")
    preload = add_library(root, options.build, folder)
    if "bench" in options.rows:
        add_bench(root, options.build, preload)
    root.put("/vm/config.json", json.dumps({
        "layout": options.layout, "only": options.only, "controls": options.controls,
        "modules": options.rows.split(","), "preload": preload}).encode())
    return root.archive()


def command(layout, folder):
    # Emulation runs `rep stosb` byte by byte, and each of the kernel's mitigations costs translated code. Without
    # both, the rows take 0.6 of the CPU time. The options behind them save a fifth of the boot's. SMAP ends a block of
    # translated code at each access of the kernel to a program's memory, protection keys are restored at each switch, and
    # init_on_alloc writes each page twice: 6 %.
    return [QEMU, "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max,vendor=GenuineIntel,-erms,-smap,-pku",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel(), "-initrd", f"{folder}/initrd",
            "-append", f"console=ttyS0 quiet panic=-1 rdinit=/init init=/init mitigations=off "
            f"nokaslr tsc=reliable apparmor=0 pcie_ports=compat cryptomgr.notests init_on_alloc=0 {layout.boot}",
            "-serial", f"file:{folder}/console", "-serial", "stdio", *layout.arguments()]


START = 120  # seconds until the first line; a machine that boots takes 5 to 20
START_CPU = 60  # CPU seconds until then; a machine that boots takes 10 to 15, and one that hangs may use all CPUs
LOOK = 5  # seconds between two readings of the console
# What the guest's kernel writes if the emulator has lost an interrupt of a processor's timer. The guest then hangs.
LOST = "kthread timer wakeup didn't happen"
ATTEMPTS = 3


def has_lost_timer(folder):
    console = pathlib.Path(folder, "console")
    return console.exists() and LOST in console.read_text(errors="replace")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def boot(layout, folder, seconds):
    """Boots the machine. Returns the lines of its TAP, and the reason if the machine ended too early, or None. The third
    value says that the emulator was the reason, so the machine should be booted again."""
    begun = looked = time.monotonic()
    lines, rest, end = [], b"", begun + seconds
    qemu = subprocess.Popen(command(layout, folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=open(f"{folder}/qemu", "wb"))
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(qemu.stdout, selectors.EVENT_READ)
            while (left := (end if lines else begun + START) - time.monotonic()) > 0:
                is_ready = selector.select(min(left, LOOK))
                if time.monotonic() - looked >= LOOK:
                    looked = time.monotonic()
                    if has_lost_timer(folder):
                        return lines, "the emulator lost a timer interrupt", True
                    if not lines and cpu_seconds(qemu.pid) > START_CPU:
                        break
                if not is_ready:
                    continue
                data = os.read(qemu.stdout.fileno(), 65536)
                if not data:
                    code = qemu.wait()
                    return lines, f"QEMU exited with {code}" if code else None, code < 0 and not lines  # the emulator crashed
                *whole, rest = (rest + data).split(b"\n")
                lines += [line.decode(errors="replace").rstrip("\r") for line in whole]
        # Occasionally the emulator's processors deadlock before the kernel's first message.
        return lines, f"the machine hung: killed after {time.monotonic() - begun:.0f} s", not lines
    finally:
        qemu.kill()
        qemu.wait()


def boot_until_it_runs(layout, folder, seconds):
    """Boots the machine, and again if the emulator failed. Prints the TAP of the last attempt."""
    end = time.monotonic() + seconds
    for attempt in range(1, ATTEMPTS + 1):
        lines, trouble, by_emulator = boot(layout, folder, end - time.monotonic())
        if not by_emulator or attempt == ATTEMPTS:
            break
        print(f"# {trouble}; once more", flush=True)
    print("\n".join(lines), flush=True)
    return lines, trouble


def complete(lines):
    """Returns whether the guest printed all results of its TAP plan, and none of them is a failure."""
    plans = [int(line[3:]) for line in lines if re.fullmatch(r"1\.\.\d+", line)]
    results = [line for line in lines if re.match(r"(not )?ok ", line)]
    return len(plans) == 1 and len(results) == plans[0], all(line.startswith("ok") for line in results)


def show(folder, name):
    text = pathlib.Path(folder, name).read_text(errors="replace") if os.path.exists(f"{folder}/{name}") else ""
    for line in text.splitlines()[-CONSOLE_LINES:]:
        print(f"# {name}: {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layout", choices=sorted(LAYOUTS))
    parser.add_argument("--build", required=True, help="a build folder of meson")
    parser.add_argument("--program", required=True)
    parser.add_argument("--refuse", required=True)
    parser.add_argument("--rows", default="*", help="modules of rows: bind,guard")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--controls", action="store_true", help="run positive rows again with GPUFEED_BIND=off; they must fail")
    parser.add_argument("--seconds", type=int, default=560, help="kill the machine after this")
    options = parser.parse_args()
    why = missing()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpufeed-vm-") as folder:
        started = time.monotonic()
        pathlib.Path(folder, "initrd").write_bytes(build_image(options, folder))
        print(f"# image: {os.path.getsize(folder + '/initrd') >> 20} MiB in {time.monotonic() - started:.1f} s",
              flush=True)
        left = options.seconds - (time.monotonic() - started)
        lines, trouble = boot_until_it_runs(LAYOUTS[options.layout], folder, left)
        whole, good = complete(lines)
        if trouble or not whole:
            print(f"Bail out! {trouble or 'the guest stopped before its last row'}")
        if trouble or not whole or not good:
            show(folder, "console")
            show(folder, "qemu")
        return 0 if whole and good and not trouble else 1


if __name__ == "__main__":
    sys.exit(main())
