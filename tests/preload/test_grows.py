# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory grows: the summary says so, from which second to which, and of which kind it is."""

import concurrent.futures
import re
import textwrap

import pytest
from conftest import SOURCE, Runner
from test_answers import START
from test_python import DEBIAN

# What a step keeps, after the sentence's cause; "": memory that does not grow until the end has no sentence.
GROWTH = {
    "leak": ("mostly the heap", "kept.append(bytearray(1 << 19))"),
    "mappings": ("mostly shared memory", "kept.append(mmap.mmap(-1, 1 << 19)); kept[-1].write(bytes(1 << 19))"),
    "cache": ("", "number < 300 and kept.append(bytearray(1 << 19))"),
    "warm_up": ("", "kept.append(bytearray((200 << 20) // number ** 2))"),
    "fork": ("", "number == 150 and fork()"),
    "garbage": ("", "kept.append(bytearray(1 << 20)); number % 100 or kept.clear()"),
}


def sentence_of(run, folder, keeps):
    program = folder / "program.py"
    program.write_text(START.replace("PRELOAD_TESTS", repr(str(SOURCE / "tests" / "preload"))) + textwrap.dedent(f"""
        import mmap
        kept = []
        def fork():
            if not os.fork():
                more = bytearray(200 << 20)
                time.sleep(1)
                os._exit(0)
        set_step = ctypes.CDLL(None).gpufeed_step
        start()
        for number in range(1, 451):
            set_step(ctypes.c_ulonglong(number))
            step()
            {keeps}
            time.sleep(0.01)
    """), encoding="utf-8")
    done = run(DEBIAN, program, sim=True, cwd=folder, GPUFEED_VERBOSE=1)
    assert done.returncode == 0, done.stderr
    said = re.search(r"host memory grew by .*", done.stderr)
    return said[0] if said else "", done.stderr


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    run = Runner()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return {name: pool.submit(sentence_of, run, tmp_path_factory.mktemp(f"grows-{name}"), keeps)
                for name, (_, keeps) in GROWTH.items()}


@pytest.mark.parametrize("name", GROWTH)
def test_answers_about_memory_that_grows(sentences, name):
    wanted, (found, text) = GROWTH[name][0], sentences[name].result()
    if not wanted:
        assert not found, text
        return
    pattern = rf"host memory grew by 0\.[45] MiB a step from second \d+ to second \d+: in \d+ steps by \d+ MiB, {wanted}"
    assert re.fullmatch(pattern, found), text
