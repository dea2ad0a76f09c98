#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a private copy of a shared library that cannot conflict with the program's copy.

RTLD_LOCAL isolates neither SONAMEs nor symbols. A program that loads libhwloc.so.15 after us would get our copy. If
the program's hwloc is already in the global scope, our calls would reach it. So the copy has another SONAME, other
NEEDED names, and other names for all exported symbols:

- No name becomes longer, so names are edited in place in .dynstr.
- In an exported name, two neighbouring letters are changed by +1 and -33. This keeps the GNU hash
  (hash = hash * 33 + letter), so the hash table needs no change: "hwloc_topology_init" becomes "iVloc_topology_init".
  A header maps each old name to the new one by #define.
- Code and read-only data become one segment, as with the linker's -z noseparate-code. This saves two mappings, which
  each fork of the program would copy.
- A libm function that libc also exports (modff) is imported from libc. So a program that does not use libm does not
  get libm's five mappings.
- An undefined name (--import getenv=gfhenv) is in no hash table, so any name of the same length can replace it. It
  loses its version, so the definition needs no version such as GLIBC_2.2.5.

Fails if a string to edit shares bytes with a string that must not change. Verifies the result with readelf.
"""
import argparse
import os
import re
import struct
import subprocess
import sys

SHT_STRTAB, SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH = 3, 6, 11, 0x6FFFFFF6
SHT_VERDEF, SHT_VERNEED, SHT_VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
PT_NULL, PT_LOAD, PF_W = 0, 1, 2
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
VER_NDX_GLOBAL = 1
LIBM, LIBC = b"libm.so.6", b"libc.so.6"
# Functions of libm that glibc's libc also exports, with the same versions, for printf and strtod.
OF_BOTH = {stem + kind for stem in (b"copysign", b"finite", b"frexp", b"ldexp", b"modf", b"scalbn")
           for kind in (b"", b"f", b"l")}
GLIBC = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux.*|ld64|ld)\.so\.\d+$")


def fail(text):
    sys.exit(f"privatize: {text}")


def elf_hash(name):
    """The System V hash, which version names use."""
    value = 0
    for letter in name:
        value = (value << 4) + letter
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def gnu_hash(name):
    value = 5381
    for letter in name:
        value = (value * 33 + letter) & 0xFFFFFFFF
    return value


class Library:
    """One ELF64 little-endian shared library as bytes, and every reference into its .dynstr."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = bytearray(file.read())
        if self.data[:6] != b"\x7fELF\x02\x01":
            fail(f"{path} is no 64-bit little-endian ELF file")
        self.path = path
        shoff, = struct.unpack_from("<Q", self.data, 0x28)
        shentsize, shnum = struct.unpack_from("<HH", self.data, 0x3A)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, shoff + i * shentsize)
                         for i in range(shnum)]
        if not self.section(SHT_GNU_HASH):
            fail(f"{path} has no GNU hash table")
        dynsym = self.section(SHT_DYNSYM)
        self.strings = self.sections[dynsym[6]][4]
        self.symbols = [struct.unpack_from("<IBBHQQ", self.data, dynsym[4] + at)
                        for at in range(0, dynsym[5], 24)]
        dynamic = self.section(SHT_DYNAMIC)
        self.dynamic = [struct.unpack_from("<QQ", self.data, dynamic[4] + at)
                        for at in range(0, dynamic[5], 16)]

    def section(self, kind):
        return next((s for s in self.sections if s[1] == kind), None)

    def text(self, offset):
        start = self.strings + offset
        return bytes(self.data[start:self.data.index(0, start)])

    def tagged(self, *tags):
        return [value for tag, value in self.dynamic if tag in tags]

    def soname(self):
        return self.text(self.tagged(DT_SONAME)[0])

    def needed_versions(self):
        """For each version in .gnu.version_r: offset of the file's name, offset of the version's name, index."""
        section = self.section(SHT_VERNEED)
        at = section[4] if section else 0
        while at:
            _, _, file, aux, following = struct.unpack_from("<HHIII", self.data, at)
            where = at + aux
            while where:
                _, _, index, name, next_aux = struct.unpack_from("<IHHII", self.data, where)
                yield file, name, index
                where = where + next_aux if next_aux else 0
            at = at + following if following else 0

    def version_strings(self):
        """Offsets of the file and version names in .gnu.version_d and .gnu.version_r."""
        found = []
        section = self.section(SHT_VERDEF)
        at = section[4] if section else 0
        while at:
            _, _, _, _, _, aux, following = struct.unpack_from("<HHHHIII", self.data, at)
            where = at + aux
            while where:
                name, next_aux = struct.unpack_from("<II", self.data, where)
                found.append(name)
                where = where + next_aux if next_aux else 0
            at = at + following if following else 0
        for file, name, _ in self.needed_versions():
            found += [file, name]
        return found

    def imports_of(self, file):
        """The undefined names whose version belongs to this needed file."""
        found = {index for name, _, index in self.needed_versions() if self.text(name) == file}
        versions = self.section(SHT_VERSYM)
        return {self.text(symbol[0]) for i, symbol in enumerate(self.symbols) if versions and symbol[3] == SHN_UNDEF and
                struct.unpack_from("<H", self.data, versions[4] + 2 * i)[0] & 0x7FFF in found}

    def rehash_versions(self):
        """Updates the hashes in .gnu.version_d after names were changed."""
        section = self.section(SHT_VERDEF)
        at = section[4] if section else 0
        while at:
            _, _, _, _, _, aux, following = struct.unpack_from("<HHHHIII", self.data, at)
            name, = struct.unpack_from("<I", self.data, at + aux)
            struct.pack_into("<I", self.data, at + 8, elf_hash(self.text(name)))
            at = at + following if following else 0

    def references(self):
        """All offsets into .dynstr that the file uses."""
        return ({s[0] for s in self.symbols} | set(self.version_strings()) |
                set(self.tagged(DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH)))

    def edit(self, offset, text, may_change):
        """Overwrites the string at offset. False if that would change a string which is not in may_change."""
        old = self.text(offset)
        if len(text) > len(old):
            fail(f"{text.decode()} is longer than {old.decode()}")
        new = text.ljust(len(old), b"\0")
        changed = [offset + i for i in range(len(old)) if old[i] != new[i]]
        for other in self.references() - may_change:
            length = len(self.text(other))
            if any(other <= byte < other + length for byte in changed):
                return False
        start = self.strings + offset
        self.data[start:start + len(new)] = new
        return True


def is_name(text):
    return re.fullmatch(rb"[A-Za-z_]\w*", text) is not None


def rename_exports(library):
    """Renames all symbols that the library defines; returns {old: new}."""
    offsets = {s[0] for s in library.symbols if s[3] not in (SHN_UNDEF, SHN_ABS) and s[0]}
    before = {offset: library.text(offset) for offset in offsets}
    for offset in offsets:
        name = library.text(offset)
        for i in range(len(name) - 1):
            if name[i + 1] < 33:
                continue
            new = name[:i] + bytes([name[i] + 1, name[i + 1] - 33]) + name[i + 2:]
            # Skips letters that an undefined name or a version shares. Another export may share them, as
            # "mbind" is the end of "numa_set_membind": it then changes twice.
            if is_name(new) and library.edit(offset, new, offsets):
                break
        else:
            fail(f"no other name of the same hash for {name.decode()}")
    renamed = {before[offset]: library.text(offset) for offset in offsets}
    for old, new in renamed.items():
        if gnu_hash(old) != gnu_hash(new) or old == new:
            fail(f"{old.decode()} became {new.decode()}: another hash, or no other name")
    return renamed


def rename_imports(library, imports):
    for old, new in imports.items():
        found = [i for i, s in enumerate(library.symbols)
                 if s[3] == SHN_UNDEF and library.text(s[0]) == old]
        offsets = {library.symbols[i][0] for i in found}
        for offset in offsets:
            if len(new) != len(old) or not library.edit(offset, new, offsets):
                fail(f"{old.decode()} cannot become {new.decode()}: it is shared")
        versions = library.section(SHT_VERSYM)
        for i in found if versions else []:
            struct.pack_into("<H", library.data, versions[4] + 2 * i, VER_NDX_GLOBAL)


def rename_files(library, soname, needed):
    """Renames the SONAME and the NEEDED names, including those in the version tables."""
    old_soname = library.soname()
    used = library.references()
    names = {old_soname: soname}
    for offset in library.tagged(DT_NEEDED):
        name = library.text(offset)
        if name == LIBM and library.imports_of(LIBM) <= OF_BOTH:
            names[LIBM] = LIBC
            continue
        if GLIBC.match(name.decode()):
            continue
        if name not in needed:
            fail(f"{library.path} needs {name.decode()}, for which no private copy was named")
        names[name] = needed[name]
    for old, new in names.items():
        offsets = {offset for offset in used if library.text(offset) == old}
        for offset in offsets:
            if not library.edit(offset, new, offsets):
                fail(f"{old.decode()} cannot become {new.decode()}: it is shared")
    library.rehash_versions()
    return names


def join_segments(library):
    """Joins adjacent read-only segments that have the same distance in memory and in the file."""
    phoff, = struct.unpack_from("<Q", library.data, 0x20)
    phentsize, phnum = struct.unpack_from("<HH", library.data, 0x36)
    first = None
    for at in range(phoff, phoff + phnum * phentsize, phentsize):
        kind, flags, offset, address, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", library.data, at)
        if kind != PT_LOAD:
            continue
        if flags & PF_W or in_file != in_memory:
            return
        if first is None or address - offset != first[1]:
            first = at, address - offset, offset, flags
            continue
        to, _, start, flags_so_far = first
        first = (*first[:3], flags | flags_so_far)
        struct.pack_into("<I", library.data, to + 4, first[3])
        struct.pack_into("<QQ", library.data, to + 32, *[offset + in_file - start] * 2)
        struct.pack_into("<I", library.data, at, PT_NULL)


def verify(path, names, imports, renamed):
    """Checks the result with readelf, which does not share this script's errors."""
    shown = subprocess.run(["readelf", "-dVW", "--dyn-syms", path], check=True, text=True,
                           capture_output=True, env={**os.environ, "LC_ALL": "C"})
    words = set(re.findall(r"[\w.+-]+", shown.stdout))
    bare = {word.split("@")[0] for word in re.findall(r"[\w@.]+", shown.stdout)}
    if shown.stderr:
        fail(f"readelf complains about {path}: {shown.stderr}")
    for old, new in names.items():
        if old.decode() in words or new.decode() not in words:
            fail(f"{path} still names {old.decode()} or lacks {new.decode()}")
    for old, new in {**imports, **renamed}.items():
        if old.decode() in bare:
            fail(f"{path} still names {old.decode()}")
        if old in renamed and new.decode() not in bare:
            fail(f"{path} lacks {new.decode()}")


def write_header(path, public, renamed):
    with open(path, "w", encoding="ascii") as file:
        file.write("/* Written by privatize.py: names of a private copy. */\n#pragma once\n")
        for old, new in sorted(renamed.items()):
            file.write(f"#define {old.decode()} {new.decode()}\n")
        for header in public:
            file.write(f"#include_next <{header}>\n")


def pairs(values):
    return {old.encode(): new.encode() for old, new in (value.split("=") for value in values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("output")
    parser.add_argument("header", help="replaces the public header of the same name")
    parser.add_argument("--include", action="append", default=[], help="public header to pass on")
    parser.add_argument("--needed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()

    library = Library(os.path.realpath(options.library))
    imports = pairs(options.imports)
    renamed = rename_exports(library)
    rename_imports(library, imports)
    names = rename_files(library, os.path.basename(options.output).encode(), pairs(options.needed))
    join_segments(library)
    with open(options.output, "wb") as file:
        file.write(library.data)
    os.chmod(options.output, 0o755)
    verify(options.output, names, imports, renamed)
    write_header(options.header, options.include or [os.path.basename(options.header)], renamed)


if __name__ == "__main__":
    main()
