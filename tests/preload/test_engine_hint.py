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
