# SPDX-License-Identifier: Apache-2.0
"""gpufeed run, help and version. The library is a stub, because the tests check only the program's environment and
arguments."""

import json
import os
import re
import shutil
import subprocess

import pytest

from clikit import *
from conftest import BUILD, PRELOAD


def run_real(audit, tunables):
    """Runs a program under the real library and an audit library."""
    env = dict(os.environ, LD_AUDIT=str(audit), LD_PRELOAD=str(BUILD / "src" / "preload" / "libgpufeed.so"),
               GLIBC_TUNABLES=tunables)
    return subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=False)


def test_library_comes_first_and_once(gpufeed, layout, compile_c):
    other = compile_c("int gf_other;", "-shared", "-fPIC", name="libother.so")
    library = str(layout / "lib" / "libgpufeed.so")
    child = environment(gpufeed("run", "--", *SHOW_ENV, LD_PRELOAD=f"{other} {library}"))
    assert child["LD_PRELOAD"] == f"{library}:{other}"


def test_flags_set_variables(gpufeed):
    child = environment(gpufeed("run", "--bind=node", "--mem", "off", "--mode=observe",
                                "--report=/tmp/r-%p.json", "--stage-min=64K", "--pin-cache", "0",
                                *SHOW_ENV, GPUFEED_BIND="off"))
    assert child["GPUFEED_BIND"] == "node"
    assert child["GPUFEED_MEM"] == "off"
    assert child["GPUFEED"] == "observe"
    assert child["GPUFEED_REPORT"] == "/tmp/r-%p.json"
    assert child["GPUFEED_STAGE_MIN"] == "64K"
    assert child["GPUFEED_PIN_CACHE"] == "0"
    assert child["GPUFEED_VERBOSE"] == "1"


def test_the_number_of_openmp_threads(gpufeed):
    cpus = len(os.sched_getaffinity(0))
    show = ["run", "--omp=auto", *SHOW_ENV]
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    shared = {**ranks, "WORLD_SIZE": str(2 * cpus), "LOCAL_WORLD_SIZE": str(2 * cpus)}
    assert 1 <= int(environment(gpufeed(*show, **ranks))["OMP_NUM_THREADS"]) <= cpus
    if cpus == os.cpu_count():
        assert environment(gpufeed(*show, **shared))["OMP_NUM_THREADS"] == "1"
    assert environment(gpufeed(*show, OMP_NUM_THREADS="77", **ranks))["OMP_NUM_THREADS"] == "77"
    assert "OMP_NUM_THREADS" not in environment(gpufeed("run", *SHOW_ENV, **ranks))
    assert "OMP_NUM_THREADS" not in environment(gpufeed(*show))  # a program that is not a rank may be a launcher of ranks


def test_verbose_of_the_user_stays(gpufeed):
    assert environment(gpufeed("run", *SHOW_ENV, GPUFEED_VERBOSE="0"))["GPUFEED_VERBOSE"] == "0"
    assert environment(gpufeed("run", "--verbose=2", *SHOW_ENV))["GPUFEED_VERBOSE"] == "2"


def test_what_it_says_of_a_bad_verbose_is_what_the_library_takes(gpufeed, run):
    said = gpufeed("run", *SHOW_ENV, GPUFEED_VERBOSE="yes")
    assert "GPUFEED_VERBOSE=yes is not valid; allowed: 0 to 2; using 1\n" in said.stderr
    assert environment(said)["GPUFEED_VERBOSE"] == "1"
    alone = run("/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)", sim=True,
                GPUFEED_VERBOSE="yes")
    assert alone.stderr == "gpufeed: GPUFEED_VERBOSE=yes is not valid; allowed: 0 to 2; using 0\n"


@pytest.mark.parametrize("args, line", [
    (["--bind=both", "true"],
     "--bind=both is not valid; allowed: auto, node, socket, exclusive, force, off"),
    (["--bind", "nod", "true"],
     "--bind=nod is not valid; allowed: auto, node, socket, exclusive, force, off (did you mean node?)"),
    (["--verbose=3", "true"], "--verbose=3 is not valid; allowed: 0 to 2"),
    (["--bnid=node", "true"], "--bnid is not a flag (did you mean --bind?)"),
    (["--stage_min=4K", "true"], "--stage_min is not a flag (did you mean --stage-min?)"),
    (["--stage-mni=4K", "true"], "--stage-mni is not a flag (did you mean --stage-min?)"),
    (["--stage-min=1K", "true"], "--stage-min=1K is not valid; allowed: auto, 4K to 1T"),
    (["--prnit", "true"], "--prnit is not a flag (did you mean --print?)"),
    (["--print=1", "true"], "--print takes no value"),
    (["--BIND=off", "true"], "--BIND is not a flag (did you mean --bind?)"),
    (["--quite-different", "true"],
     "--quite-different is not a flag; `gpufeed run --help` lists them"),
    (["--verbose"], "--verbose needs a value; allowed: 0 to 2"),
    (["--report", "--", "true"], "--report needs a value; allowed: off, or a path of fewer than 1024 bytes"),
    (["-x", "true"], "-x is not a flag; `gpufeed run --help` lists them"),
    (["-"], "- is not a flag; `gpufeed run --help` lists them"),
    (["-hx"], "-hx is not a flag; `gpufeed run --help` lists them"),
    (["--verb=2", "true"], "--verb is not a flag; `gpufeed run --help` lists them"),  # abbreviations are refused
    (["--=2", "true"], "-- is not a flag; `gpufeed run --help` lists them"),
    (["--report"], "--report needs a value; allowed: off, or a path of fewer than 1024 bytes"),
    (["--"], "no command to run: gpufeed run [flags] -- COMMAND"),
])
def test_mistakes_are_one_line_and_exit_2(gpufeed, args, line):
    result = gpufeed("run", *args)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"gpufeed run: {line}\n"


def test_environment_is_complained_about_and_goes_on(gpufeed):
    result = gpufeed("run", "/bin/true", GPUFEED_BIND="both", GPUFEED_BNID="1")
    assert result.returncode == 0
    assert "GPUFEED_BIND=both is not valid; allowed: auto" in result.stderr
    assert "GPUFEED_BNID is not an option (did you mean GPUFEED_BIND?)" in result.stderr
    # A flag that replaces the invalid value suppresses the message about it.
    assert gpufeed("run", "--bind=node", "/bin/true", GPUFEED_BIND="both").stderr == ""


def test_the_doctor_names_invalid_options(gpufeed):
    """A check that depends on the option would otherwise be omitted without a word."""
    result = gpufeed("doctor", GPUFEED_PROFILE="inferense", GPUFEED_BNID="off")
    assert "gpufeed doctor: GPUFEED_PROFILE=inferense is not valid" in result.stderr
    assert "GPUFEED_BNID is not an option (did you mean GPUFEED_BIND?)" in result.stderr
    assert "problem" in result.stdout


def test_what_was_complained_about_is_not_passed_on(gpufeed):
    """The command removes an invalid option, because the library in a child that uses CUDA would report it again."""
    result = gpufeed("run", *SHOW_ENV, GPUFEED_BIND="both", GPUFEED_BNID="1", GPUFEED_MEM="off",
                     GPUFEED_BOUND="x", GPUFEEDER="mine")
    assert len(result.stderr.splitlines()) == 2
    child = environment(result)
    assert not {"GPUFEED_BIND", "GPUFEED_BNID"} & set(child)
    assert (child["GPUFEED_MEM"], child["GPUFEEDER"]) == ("off", "mine")


def test_exit_codes_are_those_of_env(gpufeed, tmp_path):
    assert gpufeed("run", "/bin/sh", "-c", "exit 37").returncode == 37
    assert gpufeed("run", "no-such-program").returncode == 127
    assert gpufeed("run", str(tmp_path)).returncode == 126
    (tmp_path / "loop").symlink_to("loop")
    for path, why in ((tmp_path / "loop", "Too many levels of symbolic links"), ("/etc/passwd/x", "Not a directory")):
        result = gpufeed("run", str(path))  # as in bash
        assert (result.returncode, result.stderr) == (126, f"gpufeed run: cannot run {path}: {why}\n")
    plain = tmp_path / "plain"
    plain.write_text("echo hello\n")
    assert gpufeed("run", str(plain)).returncode == 126
    plain.chmod(0o755)  # no "#!": execvp hands it to the shell, as env does
    assert gpufeed("run", str(plain)).stdout == "hello\n"


@pytest.mark.parametrize("text, why", [
    ("#!/no/such/shell -e\n", "its interpreter /no/such/shell does not exist"),
    ("#!/bin/sh\r\necho\r\n", r"its interpreter /bin/sh\r does not exist; the lines of the script end in CR LF"),
])
def test_what_a_script_lacks_is_named(gpufeed, tmp_path, text, why):
    """The program exists, so the message "No such file or directory" alone would mislead."""
    (tmp_path / "inner").write_text(text, newline="")
    (tmp_path / "outer").write_text(f"#!{tmp_path}/inner\n")
    for name in ("inner", "outer"):
        script = tmp_path / name
        script.chmod(0o755)
        result = gpufeed("run", "--", str(script))
        assert result.returncode == 127
        assert result.stderr == f"gpufeed run: cannot run {script}: {why}\n"


def test_what_a_program_lacks_is_named(gpufeed, compile_c, tmp_path):
    program = compile_c("int main(void) { return 0; }", "-Wl,--dynamic-linker=/no/such/ld.so", name="lost")
    result = gpufeed("run", str(program))
    assert result.returncode == 127
    assert result.stderr == f"gpufeed run: cannot run {program}: its interpreter /no/such/ld.so does not exist\n"
    assert gpufeed("run", str(tmp_path / "none")).stderr.endswith("none: No such file or directory\n")
    assert gpufeed("run", "no-such-program").stderr.endswith("no-such-program: not found in PATH\n")
    # env itself prints that the program is missing; gpufeed adds no message.
    (tmp_path / "env").write_text("#!/usr/bin/env no-such-program\n")
    (tmp_path / "env").chmod(0o755)
    assert "gpufeed" not in gpufeed("run", str(tmp_path / "env")).stderr


def test_missing_library(layout, run, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(layout / "bin" / "gpufeed", tmp_path / "bin")
    result = run(tmp_path / "bin" / "gpufeed", "run", "true", preload=False)
    assert result.returncode == 1
    assert "libgpufeed.so is not in ../lib, relative to this command's folder" in result.stderr


DAMAGES = {
    "Permission denied": lambda library: library.chmod(0),
    "the file is empty": lambda library: library.write_bytes(b""),
    "the file is truncated": lambda library: os.truncate(library, 8192),
    "not a shared library for this processor": lambda library: library.write_bytes(b"\0" * 8192),
    "not a regular file": lambda library: (library.unlink(), library.mkdir()),
}


@pytest.mark.parametrize("command", [["run", "true"], ["run", "--print", "true"], ["preload-path"]], ids=" ".join)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_library(layout, run, tmp_path, damage, command):
    """The loader prints an error for some of these files, and a program with a truncated one ends by SIGBUS."""
    shutil.copytree(layout, tmp_path / "copy")
    library = tmp_path / "copy" / "lib" / "libgpufeed.so"
    shutil.copy(PRELOAD, library)
    DAMAGES[damage](library)
    # Root may read every file, unless it gives up that capability.
    bounded = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    result = run(*bounded, tmp_path / "copy" / "bin" / "gpufeed", *command, preload=False)
    assert (result.returncode, result.stdout, result.stderr) == \
        (1, "", f"gpufeed {command[0]}: cannot preload {library}: {damage}; install it again\n")


@pytest.mark.parametrize("name", ["a folder", "a:folder", "$ORIGIN"])
def test_folder_that_a_preload_cannot_name(layout, run, tmp_path, name):
    moved = tmp_path / name
    shutil.copytree(layout, moved)
    result = run(moved / "bin" / "gpufeed", "run", *SHOW_ENV, preload=False)
    assert "LD_PRELOAD" not in environment(result)
    assert "cannot hold a path with a blank, a colon or a dollar sign" in result.stderr


SANITIZED = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { const char *p = getenv("LD_PRELOAD"); puts(p ? p : "none"); return 0; }
"""


def test_without_means_without(gpufeed, layout, compile_c):
    """For a sanitized program, `gpufeed run` also removes the preload of an outer `gpufeed run`, for example in an
    ENTRYPOINT."""
    preload, other = layout / "lib" / "libgpufeed.so", compile_c("int gf_other;", "-shared", "-fPIC", name="libother.so")
    program = compile_c("""#include <stdio.h>
        #include <stdlib.h>
        int main(void) { const char *p = getenv("LD_PRELOAD"); puts(p ? p : "none"); return 0; }
        int __asan_init(void) { return 0; }""", "-rdynamic", name="marked")
    assert gpufeed("run", program, LD_PRELOAD=str(preload)).stdout == "none\n"
    assert gpufeed("run", program, LD_PRELOAD=f"{preload}:{other}").stdout == f"{other}\n"
    assert gpufeed("run", program, LD_PRELOAD=f"{other} {preload}").stdout == f"{other}\n"
    assert gpufeed("run", program).stdout == "none\n"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_address_sanitizer_runs_without(gpufeed, compile_c, compiler):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = compile_c(SANITIZED, "-fsanitize=address", name="asan-" + compiler, cc=compiler)
    result = gpufeed("run", program)
    assert (result.returncode, result.stdout) == (0, "none\n")
    assert result.stderr == (f"gpufeed run: {program} is built with AddressSanitizer, so a "
                             "preload cannot work: the program runs without the library\n")


def test_a_preloaded_sanitizer_stays_first(gpufeed, compile_c):
    """A sanitizer's run-time library ends the program unless it is the first preload. It is preloaded, for example,
    for a sanitized extension of Python."""
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True,
                             text=True).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("gcc's libasan is not installed")
    program = compile_c("int main(void) { return 5; }", name="plain")
    result = gpufeed("run", program, LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0")
    assert (result.returncode, result.stderr) == (5, "gpufeed run: the sanitizer in LD_PRELOAD must "
                                                     f"be the first entry: {program} runs without the library\n")


def test_static_program_runs_and_passes_it_on(gpufeed, compile_c, layout):
    program = compile_c(SANITIZED, "-static", name="static")
    result = gpufeed("run", program)
    # The loader ignores the variable here, but the program's children may still use it.
    assert result.stdout == str(layout / "lib" / "libgpufeed.so") + "\n"
    assert "is statically linked, so a preload cannot work" in result.stderr


def test_script_is_seen_through(gpufeed, compile_c, tmp_path):
    interpreter = compile_c(SANITIZED, "-fsanitize=address", name="interp")
    script = tmp_path / "script"
    script.write_text(f"#!{interpreter} -x\n")
    script.chmod(0o755)
    result = gpufeed("run", str(script))
    assert result.stdout == "none\n"
    assert "is built with AddressSanitizer" in result.stderr


def test_setuid_program_is_named(gpufeed, layout, run, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of another user")
    program = tmp_path / "suid"
    shutil.copy("/bin/true", program)
    os.chown(program, 1, 1)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("the temporary folder ignores setuid")
    result = gpufeed("run", str(program))
    assert result.returncode == 0
    assert "setuid" in result.stderr


def test_print_does_nothing(gpufeed, tmp_path):
    mark = tmp_path / "mark"
    result = gpufeed("run", "--print", "--bind=node", "--", "touch", str(mark))
    assert result.returncode == 0 and not mark.exists()
    assert "GPUFEED_BIND=node" in result.stdout
    assert "/touch\n" in result.stdout


def test_print_shows_all_that_the_run_sets(gpufeed):
    """The plan has the same variables as the program, and a shell reads its arguments back."""
    ranks = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    flags = ["run", "--omp=auto", "--tcmalloc=tune", "--huge-pages=off"]
    real = environment(gpufeed(*flags, *SHOW_ENV, **ranks))
    words = ["a b", "", "it's", "x\n\x1b", "$HOME", "plain-1"]
    plan = gpufeed(*flags, "--print", "--", "/usr/bin/printf", "%s,", *words, **ranks)
    for name in ("OMP_NUM_THREADS", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "GPUFEED_OMP"):
        assert f"{name}={real[name]}\n" in plan.stdout, plan
    assert "huge pages  off" in plan.stdout and "GPUFEED_RUN" not in plan.stdout and "\x1b" not in plan.stdout
    command = re.search("^program +(.*)\narguments +(.*)\n", plan.stdout)
    shell = subprocess.run(["bash", "-c", f"{command[1]} {command[2]}"], capture_output=True, text=True, check=True)
    assert shell.stdout == "".join(word + "," for word in words)
    bare = gpufeed("run", "--print", "--", "/bin/true").stdout
    assert "arguments" not in bare and "huge pages" not in bare and not re.search(" $", bare, re.M)


def test_print_says_what_cannot_be_loaded_or_read(gpufeed, compile_c, layout):
    static = gpufeed("run", "--print", "--", compile_c(SANITIZED, "-static", name="static"))
    assert "library     not loaded: statically linked; child processes inherit LD_PRELOAD\n" in static.stdout
    assert f"LD_PRELOAD  {layout}/lib/libgpufeed.so\n" in static.stdout and "binding" not in static.stdout
    audit = gpufeed("run", "--print", "--", "/bin/true", LD_AUDIT="/x.so")
    assert "library     not loaded: LD_AUDIT exhausts static TLS\n" in audit.stdout
    lacking = gpufeed("run", "--print", "--machine=/nonexistent", "--", "/bin/true").stdout
    assert "binding     not bound before the start: cannot read /nonexistent: No such file or directory\n" in lacking


def test_help_lists_every_option_within_80_columns(gpufeed):
    result = gpufeed("run", "--help")
    assert result.returncode == 0
    for flag in ("--mode=on|observe|off", "--bind=auto|node", "--verbose=0..2", "--report=off|PATH",
                 "--stage-min=auto|4K..1T"):
        assert flag in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert gpufeed("help", "run").stdout == result.stdout


def test_flags_are_written_with_dashes_everywhere(gpufeed):
    texts = [gpufeed("run", "--help").stdout, (BUILD / "src" / "tools" / "gpufeed.bash").read_text(),
             (BUILD / "src" / "tools" / "gpufeed.1").read_text().replace("\\-", "-")]
    for text in texts:
        assert "--stage-min" in text and "stage_min" not in text


def test_version_and_verbs(gpufeed):
    version = gpufeed("--version")
    assert version.stdout.startswith("gpufeed 0.1.0 (jemalloc 5.")
    assert "hwloc 2." in version.stdout and "libnuma 2." in version.stdout
    assert gpufeed().returncode == 2
    assert "did you mean run?" in gpufeed("rnu").stderr
    assert "did you mean topo?" in gpufeed("help", "tpoo").stderr
    # two equal letters of three or four are not similar enough
    for words in (["python", "train.py"], ["help", "foo"], ["help", "nope"]):
        result = gpufeed(*words)
        assert result.returncode == 2 and "`gpufeed run -- COMMAND` runs a program" in result.stderr
    assert gpufeed("--help").returncode == 0
    verbs = [line.split()[0] for line in gpufeed("help").stdout.splitlines() if line.startswith("  ")]
    assert {"run", "report", "topo", "help"} <= set(verbs)
    manual = (BUILD / "src" / "tools" / "gpufeed.1").read_text()
    completion = (BUILD / "src" / "tools" / "gpufeed.bash").read_text()
    words = re.search('compgen -W "(run [^"]*)"', completion)[1]
    for verb in verbs:
        assert gpufeed("help", verb).stdout.startswith("Usage: gpufeed "), verb
        word = verb.replace("-", "\\-")
        assert f".B gpufeed {word}\n" in manual and f".TP\n.B {word}\n" in manual, verb
        assert verb in words.split(), verb


@pytest.mark.parametrize("verb, words", [("help", ["run"]), ("version", []), ("preload-path", []), ("stacks", ["1"])])
def test_excess_words_are_named(gpufeed, verb, words):
    result = gpufeed(verb, *words, "excess")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"gpufeed {verb}: unexpected argument excess; see `gpufeed help {verb}`\n"


def test_words_of_the_user_cannot_control_the_terminal(gpufeed):
    for result in (gpufeed("x\x1b[31mred"), gpufeed("report", "new\nline"), gpufeed("stacks", "x\x1b[m"),
                   gpufeed("doctor", GPUFEED_BIND="a\x1b[31m")):
        *others, said = result.stderr.splitlines()
        assert result.stderr.count("\n") == 1 + len(others) and said.isprintable() and "?" in said, result
        # Processes of other tests, which may be busy or unreadable.
        assert all(re.fullmatch(r"gpufeed stacks: process(es)? [\w, ]+ not read in time, and may be of the job", line) for line in others), result


def test_an_audit_library_is_named(gpufeed, compile_c, layout):
    """If jemalloc is preloaded under LD_AUDIT, it lacks thread-local memory and ends the program
    before main."""
    audit = compile_c("unsigned la_version(unsigned v) { return v; }", "-shared", "-fPIC", name="audit.so")
    result = gpufeed("run", "/bin/sh", "-c", "echo :$LD_PRELOAD; exit 7", LD_AUDIT=str(audit))
    assert (result.returncode, result.stdout) == (7, ":\n")
    assert result.stderr == ("gpufeed run: LD_AUDIT exhausts static TLS: /bin/sh runs without the library; set "
                             "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096\n")
    room = "glibc.rtld.optional_static_tls=4096"
    result = gpufeed("run", *SHOW_ENV, LD_AUDIT=str(audit), GLIBC_TUNABLES=room)
    assert environment(result)["LD_PRELOAD"] == str(layout / "lib" / "libgpufeed.so")
    assert result.stderr == ""
    real = run_real(audit, room)
    assert real.returncode == 0, real.stderr


@pytest.mark.parametrize("words", ["run --help", "run --print true", "report SHORT", "report LONG", "topo", "topo --json",
                                   "doctor", "doctor --json", "help", "version"])
def test_a_full_disk_is_an_error_that_is_said(layout, run, tmp_path, words):
    """A line longer than stdio's buffer fails when it is printed, so the flush at exit has nothing to write."""
    for name, size in (("SHORT", 1), ("LONG", 10000)):
        (tmp_path / name).write_text(json.dumps({"event": "ring", "time": 1, "pid": 7, "text": "x" * size}) + "\n")
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([layout / "bin" / "gpufeed", *words.split()], cwd=tmp_path, env=run.env(False),
                                stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (2 if "doctor" in words else 1, "gpufeed: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize("verb", ["run", "report", "compare", "top", "stacks", "topo", "doctor", "preload-path", "help"])
def test_help_fits_a_terminal_and_names_the_exit_codes(gpufeed, verb):
    text = gpufeed(verb, "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "Exit code: " in text
