#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a page into a C header with two byte arrays, the text before and after @DATA@: embed_page.py PAGE

@SCRIPT@ and @STYLE@ become the hashes of the page's script and style, so that the browser runs and uses no other."""
import base64
import hashlib
import pathlib
import re
import sys


def array(name, text):
    data = text.encode()
    rows = (", ".join(map(str, data[at:at + 24])) for at in range(0, len(data), 24))
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(rows) + "};"


def hash_of(page, element):
    body = re.search(rf"<{element}>(.*?)</{element}>", page, re.S)[1]
    return "sha256-" + base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()


def main():
    page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    page = page.replace("@SCRIPT@", hash_of(page, "script")).replace("@STYLE@", hash_of(page, "style"))
    head, tail = page.split("@DATA@")
    print(array("gf_page_head", head), array("gf_page_tail", tail), sep="\n")


if __name__ == "__main__":
    main()
