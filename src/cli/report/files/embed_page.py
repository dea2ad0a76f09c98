#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a page into a C header with two byte arrays, the text before and after @DATA@: embed_page.py PAGE"""
import pathlib
import sys


def array(name, text):
    data = text.encode()
    rows = (", ".join(map(str, data[at:at + 24])) for at in range(0, len(data), 24))
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(rows) + "};"


def main():
    head, tail = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").split("@DATA@")
    print(array("gf_page_head", head), array("gf_page_tail", tail), sep="\n")


if __name__ == "__main__":
    main()
