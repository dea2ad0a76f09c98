#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `gpufeed compare` finds a planted difference, and how often it claims one that does not exist.

The job sleeps: its time has normal noise between runs, and in the second arm a planted difference. Each trial is one
call of `gpufeed compare`. Sleeping jobs take no CPU, so trials run side by side.

    bench/compare.py build                       # 20 trials with a difference of 3 %, 20 without; 36 pairs, noise 3 %
"""
import argparse
import concurrent.futures
import pathlib
import subprocess

# The shell's arithmetic has no fractions, and Python takes long to start, so awk sleeps.
JOB = """
    seed=$(od -An -N4 -tu4 /dev/urandom)
    exec sleep "$(awk -v seed="$seed" -v mean="$MEAN" -v noise="$NOISE" 'BEGIN {
        srand(seed); sum = -6; for (i = 0; i < 12; i++) sum += rand(); printf "%.6f", mean * (1 + noise * sum) }')"
"""


def trial(options, planted):
    """Whether the comparison claims a difference, and its answer."""
    words = [pathlib.Path(options.build) / "src" / "cli" / "gpufeed", "compare", "-n", str(options.pairs),
             "--arm", f"base:MEAN={options.seconds}", "--arm", f"planted:MEAN={options.seconds * (1 - planted)}",
             "--arm", f"base:NOISE={options.noise}", "--arm", f"planted:NOISE={options.noise}",
             "--arm", "base:GPUFEED=off", "--arm", "planted:GPUFEED=off", "--", "sh", "-c", JOB]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
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
    parser.add_argument("--jobs", type=int, default=20, help="trials at once")
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
