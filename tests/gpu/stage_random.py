# SPDX-License-Identifier: Apache-2.0
"""Stage random: the random program of tests/diff. Each seed runs four times: twice without the library, once with
GPUFEED_STAGE=off, and once with staging. The stage prints which of the four runs differ, and the first difference. It
also checks when the driver reads a batch's sources.

If the driver reads the sources of some batches late, programs do not overwrite them
(--leave-batches). A seed whose two native runs still differ shows nothing about the library.
GF_CALLS: calls of each seed; GF_SEEDS=7,8: only these seeds."""

import concurrent.futures
import os

from common import DRY, Checks, find_any, guarded, time_left
from same import first_difference, start

check = Checks("random")
MIB = 1 << 20
EARLY = {"GPUFEED_STAGE_MIN": 4096}  # stage nearly everything
TIGHT = {**EARLY, "GPUFEED_STAGE_RING": 4 * MIB, "GPUFEED_STAGE_THREADS": 4, "GPUFEED_PIN_CACHE": "2M"}
SEEDS = [(1, 1, {}), (2, 1, EARLY), (3, 1, TIGHT), (4, 8, {}), (5, 8, TIGHT), (6, 2, EARLY), (7, 1, TIGHT),
         (8, 8, EARLY)]
if "GF_SEEDS" in os.environ:
    SEEDS = [row for row in SEEDS if str(row[0]) in os.environ["GF_SEEDS"].split(",")]
WAYS = ("natively", "again", "off", "staged")
LIMIT = 200


def arguments(seed, threads, *more):
    calls = int(os.environ.get("GF_CALLS", 600 if DRY else 10000)) // threads
    fault = ["--fault"] if seed % 3 == 0 else []
    return [find_any("diff"), "--seed", seed, "--threads", threads, "--calls", calls, "--largest",
            (2 if DRY else 64 if threads < 8 else 16) * MIB, *fault, *more]


def four(pool, name, command, env):
    """Starts the four runs. Returns {way: future of a Done}."""
    envs = {"natively": {}, "again": {}, "off": {**env, "GPUFEED_STAGE": "off"}, "staged": env}
    return {way: pool.submit(start, f"{name}-{way}", command, way in ("off", "staged"), LIMIT, envs[way])
            for way in WAYS}


def differing(done):
    """Returns [(way, position)] of the runs that differ from the first native run."""
    plain = done["natively"]
    return [(way, first_difference(plain.out, done[way].out) if plain.code == done[way].code else
             f"exit {done[way].code}: {done[way].tail()[-200:]}")
            for way in WAYS[1:] if (done[way].code, done[way].out) != (plain.code, plain.out)]


def before_difference(one, other, count=5):
    """Returns the lines of the same thread just before the first difference, and the last batch's members."""
    mine, theirs = one.splitlines(), other.splitlines()
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
    members = [line for line in mine[max(0, at - 200):at] if " member" in line][-3:]
    return [line for line in members if line not in mine[max(0, at - count):at]] + mine[max(0, at - count):at]


def judge(name, done):
    """Returns which runs differ: 'same' (none), 'native' (the two native ones), 'ours', or 'none' if nothing ran."""
    plain = done["natively"]
    for way in ("natively", "again"):
        if done[way].code != 0:
            check.skip(name, f"{way} exit {done[way].code}: {done[way].tail()[-300:]}")
            return "none"
    differ = differing(done)
    for way, where in differ:
        print(f"# {name}: {way} differs: {where}", flush=True)
        for line in before_difference(plain.out, done[way].out) if way == differ[0][0] else ():
            print(f"#     before it: {line[:150]}", flush=True)
    ways = dict(differ)
    if "again" in ways:
        return "native"
    check(not differ, f"{name}: {len(plain.out.splitlines())} lines, the same again, off and staged",
          "; ".join(f"{way}: {where}" for way, where in differ))
    return "ours" if differ else "same"


def begin_reads(pool):
    if find_any("reads") is None:
        return {}
    return four(pool, "reads", [find_any("reads"), 1 if DRY else 4, *([1024] if DRY else [])],
                {**EARLY, "GPUFEED_STAGE_RING": 64 * MIB})


def reads(futures):
    """Checks that the driver obeys DURING_API_CALL, natively and with the library. Returns the kinds of memory that
    the driver itself reads late."""
    late, native = {}, set()
    for way, future in futures.items():
        done = future.result()
        if not done.out.endswith("done\n"):
            check.skip(f"reads {way}: to its end", f"exit {done.code} after {len(done.out.splitlines())} lines")
        rows = [row for row in done.out.splitlines() if row.startswith("during ")]
        if not rows:
            continue
        late[way] = {row for row in rows if not row.endswith((": old", ": refused"))}
        for row in sorted(late[way])[:8]:
            print(f"# reads {way}: {row}", flush=True)
        print(f"# reads {way}: {len(late[way])} of {len(rows)} ways not old", flush=True)

    def kinds(way):
        """Returns the kinds of memory that were read late. The calls that are late differ by chance, so they are not
        compared."""
        return {row.split()[1] for row in late.get(way, ())}
    if "natively" in late:
        native = kinds("natively") | kinds("again")
        if native:
            check.skip("sources of DURING_API_CALL", f"the driver itself reads these late: {sorted(native)}")
        for way in ("off", "staged"):
            if way in late:
                check(not kinds(way) - native, f"sources of DURING_API_CALL are read in time, {way}",
                      f"late: {sorted(kinds(way))}; natively: {sorted(native)}")
    return native


def programs(pool, late):
    """Runs the random programs. `late` means that the driver reads some batches' sources late. The programs then do
    not overwrite these, so that their results repeat."""
    jobs = {f"seed {seed}, {threads} threads": (arguments(seed, threads, *(["--leave-batches"] if late else [])), env)
            for seed, threads, env in (SEEDS[2:4] if DRY and "GF_SEEDS" not in os.environ else SEEDS)}
    waiting = {name: four(pool, name.replace(" ", "-").replace(",", ""), *job) for name, job in jobs.items()}
    found = {}
    for name, futures in waiting.items():
        found[name] = judge(name, {way: future.result() for way, future in futures.items()})
    unsteady = [name for name, word in found.items() if word == "native" and not late]
    waiting = {name: four(pool, name.replace(" ", "-").replace(",", "") + "-leaving",
                          [*jobs[name][0], "--leave-batches"], jobs[name][1])
               for name in unsteady if time_left() > 30}
    for name, futures in waiting.items():
        word = judge(f"{name}, batches left alone", {way: future.result() for way, future in futures.items()})
        found[name] = f"native, left alone {word}"
        if word == "native":
            check.skip(name, "two native runs differ, left alone too")
    for name in [name for name, word in found.items() if word == "native" and late]:
        check.skip(name, "two native runs differ, batches left alone")
    for name in set(unsteady) - set(waiting):
        check.skip(name, "two native runs differ; no time to look further")
    words = sorted(set(found.values()))
    print("# verdict: " + ", ".join(f"{word} {list(found.values()).count(word)}" for word in words), flush=True)
    meaning = {"same": "all four are the same", "ours": "the driver repeats itself and the library differs",
               "native": "the driver itself does not repeat",
               "none": "something did not run natively",
               "native, left alone same": "the driver reads batches' sources after the call; all else is the same",
               "native, left alone ours": "the driver reads late, and the library differs besides"}
    for word in words:
        print(f"#   {word}: {meaning.get(word, word)}", flush=True)


if find_any("diff") is None:
    check.skip("all", "tests/diff is not built")
else:
    with concurrent.futures.ThreadPoolExecutor(2 if DRY else 6) as threads_of_ours:
        asked = guarded(check, begin_reads, threads_of_ours)
        guarded(check, programs, threads_of_ours, guarded(check, reads, asked or {}))
check.end()
