# SPDX-License-Identifier: Apache-2.0
"""GPUFEED_BOUND: a process that the library bound sets it for the programs that it starts."""
from enginekit import *


CHILD = """
    import subprocess, sys
    child = "from feeder import *; before = mask(); start({device}); print(before, mask())"
    def ask(device, **kw):
        return subprocess.run([sys.executable, "-c", child.format(device=device)], text=True,
                              stdout=subprocess.PIPE, check=True, **kw).stdout.strip()
"""


def test_hint_lets_a_rank_use_another_gpu(feed):
    feed(CHILD + """
    start()
    assert mask() == [1]
    bound = subprocess.run(["sh", "-c", "echo $GPUFEED_BOUND"], text=True,
                           capture_output=True).stdout.strip()
    assert bound.startswith(f"v1;pid={os.getpid()};was=0-1;set=1;policy="), bound
    assert ask(0) == "[1] [1]"
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    assert ask(0) == "[1] [0]"
    """, devices=f"{NODE1},{NODE0}")


def test_without_the_hint_the_mask_is_the_users(feed):
    found = feed(CHILD + """
    start()
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="1")
    env.pop("GPUFEED_BOUND", None)
    assert ask(0, env=env) == "[1] [1]"
    """, devices=f"{NODE1},{NODE0}")
    assert "the program was started on CPUs 1" in found.stderr


def test_hint_of_another_mask_is_ignored(feed):
    feed("start()\nassert mask() == [0, 1], mask()", devices=NODE1, GPUFEED_BIND="auto",
         GPUFEED_BOUND="v1;pid=1;was=0-1;set=0;policy=default;nodes=", GPUFEED_MACHINE="")


def test_hint_is_taken_back_where_nothing_is_bound(feed):
    feed("""
        assert mask() == [1]
        start()
        assert mask() == [0, 1], mask()
        import subprocess
        assert "GPUFEED_BOUND" not in subprocess.run(["env"], capture_output=True, text=True).stdout
    """, taskset="1", GPUFEED_BIND="off",
         GPUFEED_BOUND="v1;pid=1;was=0-1;set=1;policy=default;nodes=")


KEEPS = """
    import subprocess, sys, textwrap
    KEEPS = textwrap.dedent('''
    import os
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20
    before = resident()
    for turn in range(5):
        data = [b"x" * (256 << 10) for part in range(160)]
        del data
    print(resident() - before)
    ''')
    def kept(**how):
        "MiB that a program keeps after it has used 40 MiB several times."
        return int(subprocess.run([sys.executable, "-c", KEEPS], text=True, stdout=subprocess.PIPE, check=True,
                                  **how).stdout)
"""


@pytest.mark.parametrize("bind", ["node", "off"])
def test_a_program_that_an_engine_process_starts_keeps_what_comes_back(feed, bind):
    """As a forked child, also if nothing is bound. GPUFEED_BOUND alone, as `gpufeed run` sets it, is no sign."""
    feed(KEEPS + """
    alone = kept(env={**os.environ, "GPUFEED_BOUND": "v1;pid=1;was=0-1;set=1;policy=default;nodes="})
    assert alone <= 12, alone
    start()
    def marked():
        return f"GPUFEED_ENGINE={os.getpid()}\\n" in subprocess.run(["env"], text=True, capture_output=True).stdout
    assert wait_for(marked, 60)
    assert kept() >= 30, kept()
    assert kept(env={"PATH": os.environ["PATH"], "LD_PRELOAD": os.environ["LD_PRELOAD"]}) <= 12
    """, GPUFEED_BIND=bind)


@pytest.mark.parametrize("option", [{}, {"GPUFEED": "off"}, {"GPUFEED": "observe"}, {"GPUFEED_HEAP": "off"}])
def test_other_processes_do_not_mark_their_children(feed, option):
    feed(f"""
    import subprocess
    if {bool(option)}:
        start()
    assert "GPUFEED_ENGINE" not in subprocess.run(["env"], text=True, capture_output=True).stdout
    """, **option)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_multiprocessing_are_marked(feed, method):
    feed("""
    import multiprocessing, subprocess
    def work(pipe):
        pipe.send("GPUFEED_ENGINE=" in open("/proc/self/environ").read())
    if __name__ == "__main__":
        start()
        assert wait_for(lambda: "GPUFEED_ENGINE" in subprocess.run(["env"], text=True, capture_output=True).stdout, 60)
        context = multiprocessing.get_context("METHOD")
        here, there = context.Pipe()
        worker = context.Process(target=work, args=(there,))
        worker.start()
        assert here.recv()
        worker.join()
    """.replace("METHOD", method), GPUFEED_BIND="off")
