# SPDX-License-Identifier: Apache-2.0
"""Tests how results.py makes measured.jsonl, RESULTS.md and the charts from raw figures, and whether the committed
files agree."""

import json
import pathlib
import shutil
import subprocess
import sys
import xml.dom.minidom

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import arms  # noqa: E402
import measured  # noqa: E402

WRITTEN = ("measured.jsonl", "RESULTS.md", "copies.svg", "programs.svg")
MACHINE = {"cpu": "c", "cpus": 2, "kernel": "k", "libc": "l", "date": "2026-11-01"}


def copy_case(name, speed, rounds=15):
    """Returns a case whose arm `ours` is faster than `driver` by this factor."""
    made = arms.Case(name, {}, [("ours", "driver", "GB/s", 0.97, "of the driver")], controls=[("again", "driver", "GB/s")],
                     part="sizes", way="h2d", bytes=4 << 20, mode="sync", threads=1, load=0, hot=False)
    made.rounds = [{"ours": {"GB/s": 10 * speed, "CPU s/GB": 0.2}, "driver": {"GB/s": 10, "CPU s/GB": 0.1},
                    "again": {"GB/s": 10, "CPU s/GB": 0.1}, "pinned": {"GB/s": 50, "CPU s/GB": 0.01}}] * rounds
    return made


def train_case(name="resnet18"):
    made = arms.Case(name, {}, [("ours", "plain", "images/s", 1.5, "times"), ("ours", "hand", "images/s", 1.0, "times")],
                     controls=[("again", "plain", "images/s")], part=name, unit="images")
    for turn in range(15):
        speeds = {"plain": 100 + turn % 3, "again": 103 - turn % 3, "ours": 200, "hand": 220, "unheard-of": 1}
        made.rounds.append({arm: {"images/s": speed, "CPU s/GB": 1} for arm, speed in speeds.items()})
        made.rounds[-1]["ours"]["CPUs"] = 14.25
    return made


def launch_case():
    made = arms.Case("1 thread, 1 stream", {}, [("sampled", "driver", "launches/s", 0.99, "launches/s"),
                                                ("sampled", "driver", "1/p99", None, "p99, inverse")],
                     controls=[("again", "driver", "launches/s")], part="launches", unit="launches", threads=1)
    made.rounds = [{arm: {"launches/s": rate, "p50 us": 2.5, "p99 us": 5e5 / rate, "1/p99": rate}
                    for arm, rate in (("sampled", 99500), ("driver", 100000), ("again", 100000))}] * 15
    return made


def write_raw(path, *cases, bench="h2d", dry=False, **machine):
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"bench": bench, "dry": dry, "machine": {**MACHINE, **machine},
                               "cases": [case.record() for case in cases]}) + "\n")
    return path


class Folder:
    """The folder that results.py reads and writes instead of bench/."""

    def __init__(self, path):
        self.path = path

    def run(self, *words):
        return subprocess.run([sys.executable, ROOT / "bench" / "results.py", "--measured", self.path / "measured.jsonl",
                               "--results", self.path / "RESULTS.md", "--charts", self.path, *words],
                              capture_output=True, text=True, check=False)

    def results(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return self.read("RESULTS.md")

    def read(self, name):
        return (self.path / name).read_text(encoding="utf-8")

    def all(self):
        return {name: self.read(name) for name in WRITTEN if (self.path / name).exists()}

    def cases(self):
        return {case["case"]: case for case in measured.read(self.path / "measured.jsonl")[1]}


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    (tmp_path / "RESULTS.md").write_text("# Results\n\nbefore\n")
    return Folder(tmp_path)


@pytest.fixture(name="raw")
def fixture_raw(tmp_path):
    return write_raw(tmp_path / "raw.jsonl", copy_case("sizes: one", 3.0), copy_case("sizes: other", 0.5))


def test_results_are_written_and_drawn(folder, raw):
    text = folder.results(raw)
    assert "3.000 (3.000 to 3.000)" in text and "0.97, **not met**" in text and "0.97, met" in text and "before" in text
    assert "`bench/h2d.py`: c, 2 CPUs, Linux k, l, 2026-11-01.\n" in text
    xml.dom.minidom.parse(str(folder.path / "copies.svg"))


def test_again_without_raw_files_nothing_changes(folder, raw):
    folder.results(raw, "--note", "A note.")
    once = folder.all()
    folder.results()
    assert folder.all() == once
    folder.results(raw)
    assert folder.all() == once


def test_no_samples_are_kept(folder, raw):
    folder.results(raw)
    note, *lines = map(json.loads, folder.read("measured.jsonl").splitlines())
    assert note == {"note": ""} and all("samples" not in line and line["rounds"] == 15 for line in lines)
    # the order is fixed, whatever the order of a round was
    assert list(lines[0]["medians"]) == ["pinned", "driver", "ours", "again"]


def test_other_cases_stay_as_they_are(folder, raw, tmp_path):
    first = folder.results(raw, "--note", "A note.")
    before = folder.read("measured.jsonl").splitlines()
    later = write_raw(tmp_path / "later.jsonl", copy_case("sizes: one", 2.0), copy_case("sizes: new", 1.0),
                      date="2026-11-03")
    text = folder.results(later, "--build", "abc1234")
    after = folder.read("measured.jsonl").splitlines()
    assert [line for line in before if "sizes: one" not in line] == [line for line in after if line in before]
    assert len(after) == len(before) + 1 and after[1:] == sorted(after[1:])
    assert "3.000 (3.000 to 3.000)" in first and "3.000 (" not in text and "2.000 (2.000 to 2.000)" in text
    assert "\n\nA note.\n" in text
    assert "l, 2026-11-01 to 2026-11-03. Of build abc1234, 2026-11-03: sizes (2 of 3).\n" in text
    # known cases keep their positions, and new cases are last
    assert list(folder.cases()) == ["sizes: one", "sizes: other", "sizes: new"]


def test_another_bench_stays(folder, raw, tmp_path):
    folder.results(raw)
    text = folder.results(write_raw(tmp_path / "train.jsonl", train_case(), bench="train"))
    assert "### Copies" in text and "### Programs" in text


def test_launches_have_a_row_for_each_arm(folder, tmp_path):
    text = folder.results(write_raw(tmp_path / "launches.jsonl", launch_case(), bench="gputime"))
    assert ("| 1 thread, 1 stream | sampled | 9.95e+04 | 2.5 | 5.03 | 0.995 (0.995 to 0.995) of driver (launches/s, "
            "accept 0.99, met); 0.995 (0.995 to 0.995) of driver (1/p99) | 15 |") in text
    assert "| gputime: launches | sampled / driver | 0.99 | 1 of 1 | met |" in text


def test_a_later_file_wins(folder, tmp_path):
    files = [write_raw(tmp_path / f"{speed}.jsonl", copy_case("sizes: one", speed)) for speed in (2.0, 4.0)]
    folder.results(*files)
    assert folder.cases()["sizes: one"]["claims"][0]["ratio"] == 4
    folder.results(*reversed(files))
    assert folder.cases()["sizes: one"]["claims"][0]["ratio"] == 2


def test_the_note_stays_until_there_is_another(folder, raw):
    assert "random differences.\n\nFirst.\n" in folder.results(raw, "--note", "First.")
    assert "random differences.\n\nFirst.\n" in folder.results(raw)
    assert "random differences.\n\nSecond.\n" in folder.results("--note", "Second.")
    assert "random differences.\n" in folder.results("--note", "")


def test_few_rounds_are_said(folder, tmp_path):
    text = folder.results(write_raw(tmp_path / "raw.jsonl", copy_case("sizes: one", 3.0, rounds=2)))
    few = copy_case("sizes: one", 3.0, rounds=2).lacks()
    assert few and f"| 0.97, met in {few} |" in text and f"| 1 of 1 | met in {few} |" in text
    assert folder.cases()["sizes: one"]["rounds"] == 2


def test_a_case_without_a_round_replaces_nothing(folder, raw, tmp_path):
    folder.results(raw)
    once = folder.all()
    folder.results(write_raw(tmp_path / "none.jsonl", copy_case("sizes: one", 9.0, rounds=0)))
    assert folder.all() == once


def test_figures_of_the_simulated_driver_are_refused(folder, raw, tmp_path):
    folder.results(raw)
    once = folder.all()
    done = folder.run(write_raw(tmp_path / "dry.jsonl", copy_case("sizes: one", 9.0), dry=True))
    assert done.returncode != 0 and "simulated driver" in done.stderr and folder.all() == once


def test_a_summary_is_no_raw_file(folder, raw):
    folder.results(raw)
    once = folder.all()
    done = folder.run(folder.path / "measured.jsonl")
    assert done.returncode != 0 and "not what a bench wrote" in done.stderr and folder.all() == once


def test_what_is_chance_is_shown(folder, tmp_path):
    made = train_case()
    (_, value, low, high), = made.noise()
    assert low < value < high
    text = folder.results(write_raw(tmp_path / "raw.jsonl", made, bench="train"))
    assert "of plain, which is the same" in text
    assert "| 200 images/s | 1 | 14.2 |" in text and "| 220 images/s | 1 |  |" in text  # older records have no CPUs
    assert "| ours / plain | 1.5 | 1 of 1 | met |" in text and "| ours / hand | 1 | 0 of 1 | **not met** |" in text
    xml.dom.minidom.parse(str(folder.path / "programs.svg"))


def test_what_is_committed_is_what_measured_jsonl_says(tmp_path):
    """`bench/results.py` writes all four files. Only lines of measured.jsonl may be edited by hand."""
    for name in WRITTEN:
        shutil.copy(ROOT / "bench" / name, tmp_path)
    Folder(tmp_path).results()
    for name in WRITTEN:
        same = (tmp_path / name).read_bytes() == (ROOT / "bench" / name).read_bytes()
        assert same, f"bench/{name} is not as bench/results.py writes it: run it"


TRAIN, LOADED = ("plain", "ours", "images/s"), ("plain", "ours", "GB/s")
# Each row of README's table: the case of measured.jsonl, its two arms, and the figure. A sum has several figures.
README = {
    "ResNet-18, channels_last, `pin_memory=False`": ("resnet18-last", "plain-async", "ours-async", "images/s"),
    # measured when `now` was the default
    "ResNet-18, `pin_memory=False`": ("resnet18, munmap freed now and later", "plain", "ours-later", "images/s"),
    "the same with `GPUFEED_UNMAP=now`": ("resnet18, munmap freed now and later", *TRAIN),
    "ResNet-18, channels_last, DistributedDataParallel": ("ddp", *TRAIN),
    "a tabular model": ("tabular", "plain", "ours", "rows/s"),
    "`from_pretrained": ("from_pretrained, 16 GB", *LOADED),
    "runai-model-streamer": ("runai streamer", *LOADED),
    "`torch.load(map_location=\"cuda\", mmap=True)`": ("torch.load, mmap", *LOADED),
    "`torch.load(map_location=\"cuda\")`": ("torch.load", *LOADED),
    "`torch.save`": ("torch.save", *LOADED),
    "`torch.distributed.checkpoint.load`": ("checkpoint, two ranks: load", *LOADED),
    "`torch.distributed.checkpoint.save`": ("checkpoint, two ranks: save", *LOADED),
    "`{k: v.cpu() ...}`": ("cpu", *LOADED),
    "copy of 1 GiB to the GPU": ("sizes: h2d sync 1 GiB, 1 thread", "driver", "ours", "GB/s"),
    "copy of 1 GiB from the GPU": ("sizes: d2h sync 1 GiB, 1 thread", "driver", "ours", "GB/s"),
    "16 threads that copy 1 MiB": ("threads: h2d sync 1 MiB, 16 threads", "driver", "ours", "GB/s"),
    "`cudaHostAlloc` of 1 GiB": ("large: 1 GiB, 1 thread", "driver", "ours", "alloc us"),
    "`cudaHostAlloc` and `cudaFreeHost` of 16 MiB": ("pairs: 16 MiB, 1 thread", "driver", "ours", "alloc us", "free us"),
    "`cudaHostAlloc` and `cudaFreeHost` of 64 KiB": ("warm: 64 KiB, 1 thread", "driver", "ours", "alloc us", "free us"),
    "ResNet-18, channels_last, `pin_memory=True`": ("resnet18-last", "hand", "ours+hand", "images/s"),
    "ResNet-18, `pin_memory=True`": ("resnet18", "hand", "ours+hand", "images/s"),
    "ResNet-50, `pin_memory=True`": ("resnet50", "hand", "ours+hand", "images/s"),
    "safetensors, `load_file(device=\"cuda\")` of 4 GiB": ("load_file", *LOADED),
    "safetensors, `load_file(device=\"cuda\")` of a file": ("load_file, fresh", *LOADED),
    "safetensors, `load_file(device=\"cuda\", backend=\"pread\")`": ("load_file, pread", *LOADED),
    "the same for the second time": ("load_file, pread", "plain", "ours", "second GB/s"),
    "fastsafetensors": ("fastsafetensors", *LOADED),
}
UNITS = {"million": 1e6, "ms": 1e3}  # of images, rows, GB and microseconds


def test_readme_has_the_measured_figures():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| program | without libgpufeed"):].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    cases = {case["case"]: case["medians"] for case in measured.read(ROOT / "bench" / "measured.jsonl")[1]}
    assert len(rows) == len(README)
    for program, *cells in rows:
        case, without, ours, *figures = next(known for start, known in README.items() if program.startswith(start))
        for arm, cell in zip((without, ours), cells, strict=True):
            number, unit = cell.split(" ")[:2]
            wanted = sum(cases[case][arm][figure] for figure in figures) / UNITS.get(unit, 1)
            digits = len(number.replace(".", "").lstrip("0"))
            assert float(number) == pytest.approx(float(f"{wanted:.{digits}g}")), f"{program}: {cell}, but {arm} has {wanted}"
