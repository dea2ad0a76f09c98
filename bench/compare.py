#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how often `gpufeed compare` finds a simulated difference, and how often it claims one that does not exist.

The job only writes a report with an invented time, so the machine's own noise has no effect. The time has normal
noise between runs, and the second arm's time differs by the simulated difference. With --sleep the job really sleeps
for its time, which needs an otherwise idle machine. Each trial is one call of `gpufeed compare`.

    bench/compare.py build                       # 20 trials with a difference of 3 %, 20 without; 36 pairs, noise 3 %
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess

# The sum of 12 uniform numbers of 16 bits is about normal, with a standard deviation of 65536. A shell starts faster than
# Python.
JOB = """
    sum=-393210
    for number in $(od -An -v -N24 -tu2 /dev/urandom); do sum=$((sum + number)); done
    us=$((MEAN_US + MEAN_US * NOISE_PPM / 65536 * sum / 1000000))
    if [ "$SLEEPS" = 1 ]; then exec sleep "$(printf %d.%06d $((us / 1000000)) $((us % 1000000)))"; fi
    echo '{"schema": 2, "state": "ended", "steps": {"ended": 1, "us": '"$us"', "current": null}}' \\
        >"${GPUFEED_REPORT%/*}/$$.json"
"""


def trial(options, planted):
    """Returns whether the comparison finds a difference, and its output."""
    words = [pathlib.Path(options.build) / "src" / "tools" / "gpufeed", "compare", "-n", str(options.pairs),
             *(word for arm, mean in (("base", options.seconds), ("planted", options.seconds * (1 - planted)))
               for variable in (f"MEAN_US={mean * 1e6:.0f}", f"NOISE_PPM={options.noise * 1e6:.0f}", "GPUFEED=off")
               for word in ("--arm", f"{arm}:{variable}")), "--", "sh", "-c", JOB]
    done = subprocess.run(list(map(str, words)), env={**os.environ, "SLEEPS": str(int(options.sleep))},
                          capture_output=True, text=True, check=True)
    answer = done.stdout.splitlines()[0]
    return "planted takes" in answer and (planted == 0 or "less" in answer), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=36)
    parser.add_argument("--noise", type=float, default=0.03, help="standard deviation between runs")
    parser.add_argument("--planted", type=float, default=0.03)
    parser.add_argument("--seconds", type=float, default=1, help="mean time of a run")
    parser.add_argument("--sleep", action="store_true", help="jobs sleep, and report no time")
    parser.add_argument("--jobs", type=int, default=4, help="trials at once")
    options = parser.parse_args()
    for planted in (options.planted, 0.0):
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            found = list(pool.map(lambda _, planted=planted: trial(options, planted), range(options.trials)))
        claims = sum(claim for claim, _ in found)
        for _, answer in found:
            print(f"    {answer}")
        print(f"planted {planted:.1%}: a difference is claimed in {claims} of {options.trials} trials", flush=True)


if __name__ == "__main__":
    main()
