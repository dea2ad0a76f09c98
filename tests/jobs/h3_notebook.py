# SPDX-License-Identifier: Apache-2.0
"""Healthy: a kernel of a notebook. It reads cells from its standard input and runs them; its user thinks."""
import sys

from minicuda import Gpu

space = {"Gpu": Gpu}


def run_cell(text):
    exec(compile(text, "<cell>", "exec"), space)


def main():
    for line in sys.stdin:
        run_cell(line)


main()
