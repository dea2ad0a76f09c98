# SPDX-License-Identifier: Apache-2.0
"""The command reads untrusted files. It must not wait for them, and must not write their control characters to the
terminal."""

import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from conftest import BUILD

COMMAND = BUILD / "src" / "tools" / "gpufeed"
ACTIVE = {"CSI": "\x1b[31m", "8-bit CSI": "\x9b31m", "8-bit OSC": "\x9d0;title\x9c", "override": "\u202e",
          "isolate": "\u2067", "mark": "\u200f", "arabic mark": "\u061c", "line": "\u2028", "DEL": "\x7f"}


def stall(**fields):
    return json.dumps({"time": 1.0, "pid": 1, "event": "stall", "call": "malloc", "us": 5000, "cause": "fault",
                       "evidence": "none", "thread": "main", "tid": 1, **fields}) + "\n"


def report(run, tmp_path, text, *flags):
    log = tmp_path / "log"
    log.write_text(text)
    return run(COMMAND, "report", *flags, log, preload=False)


@pytest.mark.parametrize("flags", [["--events"], ["--by=thread"], ["--by=site"], ["--json"], ["--folded", "--by=thread"]],
                         ids=lambda flags: flags[0])
@pytest.mark.parametrize("what", ACTIVE)
def test_text_that_a_terminal_obeys(run, tmp_path, what, flags):
    bad = f"a{ACTIVE[what]}b"
    done = report(run, tmp_path, stall(thread=bad, evidence=bad, python=[{"file": bad, "line": 1, "function": bad}]), *flags)
    assert done.returncode == 0 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]",
                                                  done.stdout), repr(done.stdout)
    assert "b" in done.stdout
    done = report(run, tmp_path, stall(thread="größe 漢字 😀", evidence="x"), "--events")
    assert "größe 漢字 😀" in done.stdout


def build_library(tmp_path, symbol):
    source = tmp_path / "named.c"
    source.write_text('__attribute__((noinline)) int named(void) __asm__("' + symbol + '");\n'
                      "int named(void) { return 1; }\n")
    library = tmp_path / "libnamed.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--build-id=0x12345678", source, "-o", library], check=True)
    return library


def function_offset(library, symbol):
    listed = subprocess.run(["nm", "-D", library], capture_output=True, check=True).stdout.decode(errors="replace")
    return next(line.split()[0] for line in listed.splitlines() if symbol in line)


def test_names_of_functions(run, tmp_path):
    library = build_library(tmp_path, "harmless_name")
    at = function_offset(library, "harmless_name")
    event = stall(modules=[{"path": str(library), "build_id": "12345678"}], stack=[f"0+{at}"])
    assert "harmless_name+0" in report(run, tmp_path, event, "--events").stdout
    data = library.read_bytes()
    library.write_bytes(data.replace(b"harmless_name", b"har\x1b[31m\x9bname"[:13]))
    done = report(run, tmp_path, event, "--events")
    assert "har?[31m?name"[:13] in done.stdout and "\x1b" not in done.stdout, repr(done.stdout)


@pytest.mark.parametrize("kind", ["FIFO", "device", "socket"])
def test_modules_that_are_no_files(run, tmp_path, kind):
    """The command must not even open a device: opening /dev/ptmx, for example, creates a terminal."""
    path = tmp_path / "module"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path = pathlib.Path("/dev/ptmx")
    else:
        import socket
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    log = tmp_path / "log"
    log.write_text(stall(modules=[{"path": str(path), "build_id": "12345678"}], stack=["0+10"]))
    seen = tmp_path / "trace"
    done = run("/usr/bin/strace", "-e", "trace=openat", "-o", seen, COMMAND, "report", "--events", log, preload=False)
    assert done.returncode == 0 and f"{path.name}+0x10" in done.stdout, done
    opened = [line for line in seen.read_text().splitlines() if str(path) in line]
    assert opened and all("O_PATH" in line for line in opened), opened


def test_file_truncated_while_it_is_mapped(run, tmp_path):
    """Reading the second event needs pages that the truncated file no longer has."""
    library = tmp_path / "big.so"
    library.write_bytes(build_library(tmp_path, "some_name").read_bytes())
    at = function_offset(library, "some_name")
    event = stall(modules=[{"path": str(library), "build_id": "12345678"}], stack=[f"0+{at}"])
    pipe = subprocess.Popen([COMMAND, "report", "--events", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=dict(run.base, LC_ALL="C.UTF-8"), bufsize=1)
    pipe.stdin.write(event)
    pipe.stdin.flush()
    with pipe:
        until = time.monotonic() + 60
        while str(library) not in pathlib.Path(f"/proc/{pipe.pid}/maps").read_text():
            assert time.monotonic() < until, "never mapped"
            time.sleep(0.01)
        os.truncate(library, 64)
        out, _ = pipe.communicate(event * 2, timeout=60)
    assert pipe.returncode == 0 and out.count("took 5.000 ms") == 3, (pipe.returncode, out)


@pytest.mark.parametrize("flags", [[], ["--print"]])
def test_interpreter_that_is_a_fifo(run, tmp_path, flags):
    fifo, script = tmp_path / "fifo", tmp_path / "script"
    os.mkfifo(fifo, 0o755)
    script.write_text(f"#!{fifo}\n")
    script.chmod(0o755)
    done = run(COMMAND, "run", *flags, "--", script, preload=False)
    assert done.returncode in (0, 126), done


@pytest.mark.parametrize("text", ["Package:4000 Core:4000 PU:4", "Package:2 Core:4294967295 PU:2", "4000 4000 4",
                                  "Package:0x7fffffff PU:2", "Package:4 PU:4096", "Package:4096 PU:1",
                                  "Package:2 [NUMANode:3000] Core:3000 PU:1", "Package:2 Core:-2 PU:2",
                                  "Package:2 Core:1 PU:2(indexes=0,1,2,4294967295)", "Package:2 Core:1 PU:2(indexes=0,1,2,-1)",
                                  "Package:2 [NUMANode(memory=8GB indexes=0,0x7fffffff)] PU:2",
                                  "Package:64 " + 65 * "[NUMANode] " + "PU:1"])
def test_recording_of_too_many_processors(run, tmp_path, text):
    (tmp_path / "topology.txt").write_text(text + "\n")
    done = run("/bin/sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", COMMAND, "topo", preload=False,
               GPUFEED_MACHINE=tmp_path)
    assert done.returncode not in ("hung", 0) and done.returncode < 128, done
    assert len(done.stderr.splitlines()) == 1 and "Argument list too long" in done.stderr, done.stderr


@pytest.mark.parametrize("old, new", [
    (' cpuset="0x', ' cpuset="99999999 0x'), (' cpuset="', ' cpuset=",'), (' cpuset="', ' cpuset="0x1" cpuset="'), (' cpuset="', ' x="1"y cpuset="'),
    (' cpuset="', ' cpuset="0x100000000,'), (' cpuset="0x', ' cpuset="0xf...f0x'), (' cpuset="', ' cpuse="'), (' cpuset="', ' , cpuset="'),
])
@pytest.mark.parametrize("kind", ["Machine", "NUMANode", "Core"])
def test_damaged_recording(run, tmp_path, kind, old, new):
    assert run(COMMAND, "topo", "--record", tmp_path / "machine", preload=False).returncode == 0
    path = tmp_path / "machine" / "topology.xml"
    text = path.read_text()
    at = text.index(f'type="{kind}"')
    path.write_text(text[:at] + text[at:].replace(old, new, 1))
    done = run(COMMAND, "topo", preload=False, GPUFEED_MACHINE=tmp_path / "machine")
    if new == ' cpuset=",':  # an empty word
        assert done.returncode == 0 and not done.stderr, done
        return
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "Invalid argument" in done.stderr, done


@pytest.mark.parametrize("index", ["", "4294967295", "1024"])
def test_a_recorded_node_without_a_valid_index(run, tmp_path, index):
    assert run(COMMAND, "topo", "--record", tmp_path / "machine", preload=False).returncode == 0
    path = tmp_path / "machine" / "topology.xml"
    path.write_text(path.read_text().replace('type="NUMANode" os_index="0"', f'type="NUMANode" os_index="{index}"' if index else 'type="NUMANode"'))
    done = run(COMMAND, "topo", preload=False, GPUFEED_MACHINE=tmp_path / "machine")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "Invalid argument" in done.stderr, done


@pytest.mark.parametrize("old, new", [(' allowed_cpuset="0x', ' allowed_cpuset=",0x'), ('<topology version="2.0">', '<topology version="2.0>'),
                                      ("</object>", '<object type="Misc"'), ("</topology>", '<cpukind cpuset=",1"/></topology>')])
def test_damaged_part_of_a_recording(run, tmp_path, old, new):
    """What is not read may be damaged."""
    assert run(COMMAND, "topo", "--record", tmp_path / "machine", preload=False).returncode == 0
    path = tmp_path / "machine" / "topology.xml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    done = run(COMMAND, "topo", preload=False, GPUFEED_MACHINE=tmp_path / "machine")
    assert done.returncode == (1 if "Misc" in new else 0) and len(done.stderr.splitlines()) == done.returncode, done


def test_a_recording_of_hwloc_1(run, tmp_path):
    """Its packages are sockets."""
    assert run(COMMAND, "topo", "--record", tmp_path, preload=False).returncode == 0
    path = tmp_path / "topology.xml"
    outputs = []
    for name in "Package", "Socket":
        path.write_text(path.read_text().replace('type="Package"', f'type="{name}"'))
        outputs.append(run(COMMAND, "topo", "--json", "--machine", tmp_path, preload=False).stdout)
    assert outputs[0] == outputs[1] and '"socket": 0' in outputs[0] and 'type="Socket"' in path.read_text(), outputs
