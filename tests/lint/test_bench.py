# SPDX-License-Identifier: Apache-2.0
"""Tests the code that turns raw figures into claims and charts. Also tests programs of bench/ that CI cannot run
completely."""

import ast
import builtins
import pathlib
import random
import statistics
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "gpu")]
import arms  # noqa: E402
import benched  # noqa: E402
import chart  # noqa: E402
import ratio  # noqa: E402
import train  # noqa: E402


def case(speeds, least, name="sizes: h2d sync 4 MiB, 1 thread"):
    """Returns a case whose arm `ours` is faster than `driver` and `pinned` by these factors, one for each round."""
    made = arms.Case(name, {}, [("ours", "driver", "GB/s", least, "of the driver")], part="sizes", way="h2d",
                     bytes=4 << 20, mode="sync", threads=1, load=0)
    made.rounds = [{"driver": {"GB/s": 10, "CPU s/GB": 0.1}, "pinned": {"GB/s": 50, "CPU s/GB": 0.01},
                    "ours": {"GB/s": 10 * speed, "CPU s/GB": 0.2}} for speed in speeds]
    return made


@pytest.mark.parametrize("speeds, least, good", [
    ([1.0] * 15, 0.97, True),
    ([0.9] * 15, 0.97, False),
    ([0.9, 1.1] * 10, 0.97, False),  # the median passes, but its interval is too wide
    ([1.0] * 15, "same", True),
    ([0.99, 1.01] * 10, "same", True),
    ([0.95, 1.05] * 10, "same", False),  # wider than 4 %
    ([1.2, 1.3] * 10, "same", True),
    ([0.98] * 15, "same", False),
])
def test_claims(speeds, least, good):
    assert [one[1] for one in case(speeds, least).judged()] == [good]


def test_rounds_shuffle_and_stop():
    order, made = [], []
    for name in ("one", "two"):
        def turn(name=name):
            order.append(name)
            return {"GB/s": 1}
        made.append(arms.Case(name, {"a": turn, "b": turn}))
    arms.rounds(made, until=float("inf"), least=10, seed=1)
    assert [len(one.rounds) for one in made] == [10, 10]
    taken = order[2:]  # the turns after the warm-up
    assert {taken[at] for at in range(0, len(taken), 2)} == {"one", "two"}, "always in the same order"


class FakeArm:
    """An arm whose figure is the number of its renewals."""

    def __init__(self):
        self.told, self.age = [], 0

    def leave(self):
        self.told.append("leave")

    def renew(self):
        self.told.append("renew")
        self.age += 1

    def turn(self):
        self.told.append("turn")
        return {"GB/s": 1 + self.age}


def renewed_cases(fleet, least=None):
    return [arms.Case(name, {arm: one.turn for arm, one in fleet.items()},
                      [("a", "b", "GB/s", least, "")] if least else ()) for name in ("one", "two")]


def test_processes_are_renewed_and_their_rounds_numbered():
    fleet = {"a": FakeArm(), "b": FakeArm()}
    made = renewed_cases(fleet)
    arms.rounds(made, until=float("inf"), seed=1, renewed=fleet)
    count = arms.SETS * arms.RENEWED
    assert arms.SETS >= 8 and count >= arms.ROUNDS
    for one in made:
        assert one.sets == [at // arms.RENEWED for at in range(count)]
        assert [r["a"]["GB/s"] for r in one.rounds] == [1 + number for number in one.sets], "not of the same processes"
        assert one.record()["sets"] == one.sets and not one.lacks()
    # Warm-up turns of both cases come at the start and after each renewal. Their figures are
    # dropped.
    for arm in fleet.values():
        kept = ["turn"] * 2 * arms.RENEWED
        assert arm.told == ["turn"] * 2 + kept + (["leave", "renew"] + ["turn"] * 2 + kept) * (arms.SETS - 1)


def test_cases_that_are_open_get_new_processes(monkeypatch):
    fleet = {"a": FakeArm(), "b": FakeArm()}
    made = renewed_cases(fleet, least=2)
    made[1].claims = ()
    monkeypatch.setattr(made[0], "most", arms.SETS * arms.RENEWED + 3)
    arms.rounds(made, until=float("inf"), seed=1, renewed=fleet)
    assert made[0].sets == [at // arms.RENEWED for at in range(len(made[0].rounds))]
    assert len(made[0].rounds) == (arms.SETS + 2) * arms.RENEWED
    assert [r["a"]["GB/s"] for r in made[0].rounds] == [1 + number for number in made[0].sets]
    assert len(made[1].rounds) == arms.SETS * arms.RENEWED


def test_nothing_is_renewed_for_no_case():
    fleet = {"a": FakeArm()}
    arms.rounds([], until=float("inf"), renewed=fleet)
    assert fleet["a"].told == []


def test_rounds_without_renewal_have_no_sets():
    made = arms.Case("one", {"a": FakeArm().turn})
    arms.rounds([made], until=float("inf"))
    assert made.sets == [] and "sets" not in made.record() and len(made.rounds) == arms.ROUNDS


def rounds_of_sets(sets, each):
    """Returns ratios that differ much more between sets than within them: ([ratio of each round], [set of each
    round])."""
    chance, made, numbers = random.Random(7), [], []
    for number in range(sets):
        level = chance.gauss(1, 0.1)
        for _ in range(each):
            made.append({"driver": {"GB/s": 1}, "ours": {"GB/s": level + chance.gauss(0, 0.001)}})
            numbers.append(number)
    return made, numbers


def test_an_interval_of_sets_is_wider():
    made, numbers = rounds_of_sets(8, 6)

    def middle(rounds):
        return statistics.median(r["ours"]["GB/s"] for r in rounds)
    value, low, high = ratio.bootstrap(made, middle)
    same, less, more = ratio.bootstrap(made, middle, sets=numbers)
    assert same == value and more - less > 1.3 * (high - low)
    assert ratio.bootstrap(made, middle, sets=list(range(len(made)))) == (value, low, high)


def test_a_case_takes_its_sets_whole():
    one = case([1], None)
    one.rounds, numbers = rounds_of_sets(8, 6)
    _, low, high = one.ratio("ours", "driver", "GB/s")
    one.known.clear()
    one.sets = numbers
    _, less, more = one.ratio("ours", "driver", "GB/s")
    assert more - less > 1.3 * (high - low)


class Said(list):
    def __call__(self, good, name, detail=""):
        self.append(("PASS" if good else "FAIL", name))

    def skip(self, name, why):
        self.append(("SKIP", name))


@pytest.mark.parametrize("speeds, sets, said", [
    ([1.0] * 15, [], "PASS"),
    ([1.0] * 16, [at // 2 for at in range(16)], "PASS"),
    ([1.0] * 16, [at // 4 for at in range(16)], "SKIP"),  # only four sets
    ([1.0] * 9, [], "SKIP"),
    ([0.9, 1.1] * 4, [], "SKIP"),  # too few rounds to decide
    ([0.9] * 9, [], "FAIL"),  # enough rounds to decide
    ([0.9, 1.1] * 10, [], "FAIL"),
])
def test_too_few_rounds_are_no_pass(speeds, sets, said):
    made, check = case(speeds, 0.97), Said()
    made.sets = sets
    benched.verdicts(check, [made])
    assert [verdict for verdict, _ in check] == [said]


def test_arms_that_have_claims():
    assert train.arms_of("resnet50", train.CLAIMED) == ["ours", "ours-async", "hand", "ours+hand"]
    assert train.arms_of("resnet50", ["ours", "numactl", "again"]) == ["ours", "numactl"]
    assert set(train.MAIN + train.LAST + train.MORE + train.CROWD + train.GPU_TIME) == {*train.TASKS, "ranks"}


def test_every_stage_is_named():
    head = (ROOT / "bench" / "device.sh").read_text(encoding="utf-8").partition("\nset ")[0]
    words = set(head.replace(";", " ").split())
    assert {path.stem[len("stage_"):] for path in ROOT.glob("tests/gpu/stage_*.py")} <= words


@pytest.mark.parametrize("speeds, shown", [
    ({"ours": 30, "plain": 10, "hand": 20}, {"(1.00)", "(3.00)", "(2.00)"}),
    ({"ours": 30, "plain-async": 10, "hand": 20}, {"(1.00)", "(3.00)", "(2.00)"}),
    ({"ours": 30, "hand": 20}, {"(1.00)", "(1.50)"}),
    ({"ours": 30, "ours-async": 20}, set()),
])
def test_what_bars_are_parts_of(speeds, shown):
    drawn = chart.programs([{"case": "c", "unit": "images", "medians": {arm: {"images/s": s} for arm, s in speeds.items()}}])
    assert {word.partition("<")[0] for word in drawn.split() if word.startswith("(")} == shown


def test_a_case_without_a_round_says_nothing():
    made = arms.Case("none", {}, [("ours", "driver", "GB/s", 1, "")], controls=[("again", "driver", "GB/s")])
    assert made.judged() == [] and made.record()["claims"] == [] and made.record()["controls"] == []


def unknown_names(text):
    """Returns names that the file uses, and that no line of it defines in any scope."""
    made, read = {*dir(builtins), "__file__", "__name__"}, set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            made.add(node.name)
    return read - made


@pytest.mark.parametrize("path", sorted([*ROOT.glob("tests/gpu/*.py"), *ROOT.glob("tests/gpu/programs/*.py"),
                                         *ROOT.glob("bench/*.py")]), ids=lambda path: path.name)
def test_every_name_is_known(path):
    """In code that needs a GPU, a misspelt name would only show after minutes on a GPU machine."""
    assert unknown_names(path.read_text(encoding="utf-8")) == set()


def test_a_name_that_nothing_makes_is_found():
    assert unknown_names("import a.b as c\ndef f(x):\n    return c(x, y)\nf(1)\ng()\n") == {"y", "g"}
