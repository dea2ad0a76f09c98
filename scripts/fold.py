#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folds src into the modules of scripts/fold/table.txt: fold.py [--root DIR] [--build] [--room FOLDER ...] [--end]

Without options: everything, in one go. --build: the build files, and the files that only move. --room FOLDER: the modules
of one folder of the new tree. --end: the lints and documents of the new tree. In this order, each leaves a tree that
builds. A file of src that the table does not name is an error; a file of the table that src lacks is a note.

    scripts/fold/table.txt    the modules, and the files that only move
    scripts/fold/names.txt    names that clash in merged files
    scripts/fold/words.txt    names that mean two things in the tree
    scripts/fold/edits-*.txt  edits of other files, each old text exactly once
    scripts/fold/build, end   whole files of the new tree; a line 'X.c' stands for the sources of module X, @FOLDER@ for those
                              of a folder; lines between @if FILE@ and @end@ are left out if src lacks FILE
    scripts/fold/architecture.md  the sections of docs/architecture.md about rooms
    scripts/fold/flags.txt    the build files of src that scripts/fold/build stands for
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "fold"))

from parts import *  # noqa: E402, F403
from mentions import Mentions  # noqa: E402


class Fold:
    def __init__(self, root, table, rooms):
        self.root, self.src, self.table = root, root / "src", table
        self.rooms = rooms
        self.taken = {new: olds for new, olds in table.modules.items()
                      if rooms is None or new.rsplit("/", 1)[0] in rooms}
        self.new = {old: new for new, olds in self.taken.items() for old in olds}
        self.map = {}  # old file -> new file, below src
        self.private = set()
        self.texts = {}
        for path in self.tracked():
            if path.suffix in (".c", ".h", ".S", ".def", ".py", ".build", ".map", ".syms", ".in", ".sh"):
                self.texts[path] = path.read_text(encoding="utf-8", errors="replace")

    def tracked(self):
        listed = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, text=True,
                                check=True).stdout
        for name in listed.split("\0"):
            path = self.root / name
            if name and path.is_file() and not path.is_symlink() and not name.startswith("scripts/fold"):
                yield path

    def inclusions(self):
        """Returns {header below src: the files that include it}."""
        found = collections.defaultdict(set)
        for path, text in self.texts.items():
            if path.suffix in (".c", ".h", ".S", ".def"):
                for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
                    found[re.sub(r"^(\.\./)+src/", "", name)].add(path)
            else:
                for name in re.findall(r'[\w/]+/\w+\.h\b', text):  # flags, programs that tests write
                    if (self.src / name.split("src/")[-1]).is_file():
                        found[name.split("src/")[-1]].add(path)
        return found

    def users(self):
        """Returns {word: files whose code has it}."""
        found = collections.defaultdict(set)
        for path, text in self.texts.items():
            code = LEXER.sub(lambda m: " " if m[0][0] == "/" else m[0], text) if path.suffix in (".c", ".h") else text
            for word in set(re.findall(r"\w+", code)):
                found[word].add(path)
        return found

    def choose_headers(self):
        """A header that only its module includes disappears into the module's .c, unless a header that stays includes it."""
        included = self.inclusions()
        for new, olds in self.taken.items():
            inside = {self.src / (old + suffix) for old in olds for suffix in (".c", ".h")}
            headers = [old for old in olds if (self.src / (old + ".h")).is_file()]
            if not any((self.src / (old + ".c")).is_file() for old in olds):
                continue
            stay = {old for old in headers if included[old + ".h"] - inside}
            grown = True
            while grown:
                more = {other for old in stay for other in headers if other not in stay
                        and self.src / (old + ".h") in included[other + ".h"]}
                grown = bool(more)
                stay |= more
            self.private |= set(headers) - stay
        for old, new in self.new.items():
            for suffix in self.table.there(old):
                self.map[old + suffix] = new + (".c" if old in self.private else suffix)

    def order(self, olds):
        """Parts that others of the module include come first."""
        needs = {}
        for old in olds:
            text = "".join(self.texts[self.src / (old + s)] for s in self.table.there(old))
            needs[old] = {other for other in olds if other != old and f'"{other}.h"' in text}
        done = []
        while len(done) < len(olds):
            left = [old for old in olds if old not in done]
            done.append(next((old for old in left if not needs[old] - set(done)), left[0]))
        return done

    def target(self, name):
        """Returns the new path of an included file."""
        return self.map.get(name) or self.moved.get(name, name)

    def block(self, includes, own, without=()):
        """Returns the lines of #include, sorted, each once."""
        seen = {}
        for mark, name, rest in includes:
            name = self.target(name) if mark == '"' else name
            if mark == '"' and (name == own or name.endswith(".c")) or (mark, name) in without:
                continue
            seen[mark, name] = seen.get((mark, name)) or rest
        groups = []
        for mark, end in (('"', '"'), ("<", ">")):
            lines = [f"#include {mark}{name}{end}{rest}\n" for (m, name), rest in sorted(seen.items()) if m == mark]
            if lines:
                groups.append("".join(lines))
        return groups, set(seen)

    def body(self, text, own):
        """Rewrites #include lines that stay where they are."""
        lines = []
        for line in text.split("\n"):
            found = INCLUDE.match(line)
            if found and found[1] == '"':
                name = self.target(found[2])
                if name == own:
                    continue
                line = line.replace(found[2], name)
            lines.append(line)
        return "\n".join(lines)

    def localize(self, parts, users, inside):
        """Makes functions static that no other module uses. parts: [(header or None, source or None)]. The contract of such a
        function moves from the header to its definition."""
        first = []
        for header, source, is_private in parts:
            if not header:
                continue
            for group in re.split(r"(?<=\n)\n+", header.body):
                found = list(PROTOTYPE.finditer(group))
                rest = PROTOTYPE.sub("", group)
                comment = re.match(r"\s*(/\*.*?\*/\n)?\s*\Z", rest, re.S)
                names = [f[2] for f in found]
                if not found or not comment or any(users[name] - inside for name in names):
                    continue
                others = "".join(code_of(PROTOTYPE.sub("", h.body)) for h, _, private in parts if h and not private)
                if any(re.search(rf"\b{name}\b(?<!struct {name})", others) for name in names):
                    continue  # inline functions and macros of the header use it
                sources = [next((s for _, s, _ in parts if s and self.definition(s.body, name)), None) for name in names]
                if None in sources:
                    continue
                for name, part in zip(names, sources):
                    at = self.definition(part.body, name)
                    line = part.body[at.start():]
                    keep = comment[1] if len(names) == 1 and comment[1] else ""
                    part.body = part.body[:at.start()] + keep + "static " + line
                if len(names) > 1 and comment[1]:  # one comment for several functions stays with their declarations
                    text = PROTOTYPE.sub(lambda f: "static " + f[0], group)
                    holder = next(s for _, s, _ in parts if s is sources[0])
                    holder.body = text.strip("\n") + "\n\n" + holder.body
                else:
                    first += [(f[2], "static " + f[0]) for f in found]
                header.body = header.body.replace(group, "\n", 1)
            header.body = re.sub(r"\n{3,}", "\n\n", header.body).strip("\n")
            header.body += "\n" if header.body else ""
        return first

    @staticmethod
    def definition(body, name):
        """Returns the place of a function's definition."""
        for found in re.finditer(rf"^(?!static|extern|return|typedef|#|\s)[A-Za-z_][\w ]*[ *]+{name}\(", body, re.M):
            rest = code_of(body[found.start():found.start() + 1500])
            if re.match(r"[^;{}]*\)\s*(GF_\w+(\([^)]*\))?\s*)?\n\{", rest):
                return found
        return None

    def module(self, new, olds, users):
        """Returns the new header's and source's text of a module."""
        olds = self.order(olds)
        inside = {self.src / (old + suffix) for old in olds for suffix in (".c", ".h")}
        parts = [(Part(self.src / (old + ".h")) if (self.src / (old + ".h")).is_file() else None,
                  Part(self.src / (old + ".c"), self.table.names[old]) if (self.src / (old + ".c")).is_file() else None,
                  old in self.private) for old in olds]
        has_source = any(source for _, source, _ in parts)
        public = [header for header, _, private in parts if header and not private]
        own = new + ".h"
        first = self.localize(parts, users, inside) if has_source and (len(olds) > 1 or self.private & set(olds)) else []
        public = [header for header in public if header.body or len(olds) == 1 or not has_source]
        sections = [(part.head, part.body) for header, source, private in parts
                    for part in (header if header not in public else None, source) if part]
        title = f"/* {self.table.purpose[new][0].upper()}{self.table.purpose[new][1:].replace('`', '')}. */\n"
        top, skip = "", set()
        if public:
            many = len(public) > 1
            groups, skip = self.block([i for header in public for i in header.includes], own)
            guard = "GF_" + re.sub(r"\W", "_", new.upper()) + "_H"
            texts = [((header.head + "\n") if many and header.head else "") + self.body(header.body, own) for header in public]
            top = "\n".join([f"{SPDX}\n{title if many else public[0].head}#ifndef {guard}\n#define {guard}\n",
                             *groups, *texts, "#endif\n"])
        if not has_source:
            return top, ""
        head = ""
        if not public and len([1 for text in sections if text[1]]) > 1:
            head = title
        elif sections[0][0] and len(sections) == 1 or (len(sections) > 1 and not sections[0][1]):
            head, sections[0] = sections[0][0], ("", sections[0][1])
        elif len(sections) == 1:
            head = ""
        includes = [i for header, source, private in parts for part in (header if header not in public else None, source) if part
                    for i in part.includes]
        groups, _ = self.block(includes, own, skip)
        texts = [((h + "\n") if h else "") + self.body(b, own) for h, b in sections if h or b]
        text = "\n".join(texts)
        code = code_of(text)
        early = ""
        for name, prototype in first:  # a use before the definition needs the declaration
            at, use = self.definition_static(code, name), re.search(rf"(?<!struct )\b{name}\b", code)
            if use and at and use.start() < at.start():
                early += prototype
        before = "".join(source.first for _, source, _ in parts if source)
        blocks = ([before] if before else []) + ([f'#include "{own}"\n'] if public else []) + groups + ([early] if early else []) + [text]
        return top, f"{SPDX}\n{head}" + "\n".join(blocks)

    @staticmethod
    def definition_static(code, name):
        return re.search(rf"^static [\w ]*[ *]*{name}\((?=[^;{{}}]*\)[^;{{}}]*\n\{{)", code, re.M)

    def run(self, moved):
        """Writes the modules. moved: files that only move."""
        self.moved = moved
        self.choose_headers()
        users = self.users() if self.taken else {}
        made = self.made = {}
        for new, olds in self.taken.items():
            header, source = self.module(new, olds, users)
            for suffix, text in ((".h", header), (".c", source)):
                if text:
                    made[self.src / (new + suffix)] = re.sub(r"\n{3,}", "\n\n", text)
            for old in olds:
                if (self.src / (old + ".h")).is_file() and not header:
                    self.map[old + ".h"] = new + ".c"
        for old, new in moved.items():
            if (self.src / old).is_file() and old != new:
                (self.src / new).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(self.src / old, self.src / new)
        for old in self.new:
            for suffix in self.table.there(old):
                (self.src / (old + suffix)).unlink()
        for path, text in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for path in sorted(self.src.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        return made


def merge_calls(root):
    """Merges the rows of tests/lint/calls.py that name the same file now."""
    path = root / "tests/lint/calls.py"
    text = path.read_text(encoding="utf-8")
    found = re.search(r"^PERMITTED = \{\n(.*?)^\}\n", text, re.M | re.S)
    if not found:
        return
    rows = collections.defaultdict(dict)
    for name, kinds in re.findall(r'^    "(src/[^"]+)": \{(.*?)\},?$', found[1], re.M | re.S):
        for kind, reason in re.findall(r'"(\w+)": (OWN|"[^"]*")', kinds):
            said = rows[name].setdefault(kind, [])
            if reason not in said:
                said.append(reason)
    lines = []
    for name, kinds in sorted(rows.items()):
        said = {kind: reasons[0] if len(reasons) == 1 else
                '"' + "; ".join("memory that the library mapped itself" if r == "OWN" else r.strip('"') for r in reasons) + '"'
                for kind, reasons in kinds.items()}
        row = f'    "{name}": {{' + ", ".join(f'"{k}": {r}' for k, r in said.items()) + "},\n"
        if len(row) > 130:
            row = f'    "{name}": {{\n' + "".join(f'        "{k}": {r},\n' for k, r in said.items()) + "    },\n"
        lines.append(row)
    path.write_text(text.replace(found[0], "PERMITTED = {\n" + "".join(lines) + "}\n"), encoding="utf-8")


def rename_words(root, lines):
    """Renames what words.txt names. Returns the changed files."""
    changed = set()
    for line in lines:
        old, new, globs = (part.strip() for part in line.split(" | "))
        paths = [path for glob in globs.split() for path in sorted(root.glob(glob)) if path.is_file()]
        done = False
        for path in paths:
            text = path.read_text(encoding="utf-8")
            after = re.sub(old, new, text, flags=re.M)
            if after != text:
                path.write_text(after, encoding="utf-8")
                changed.add(path)
                done = True
        if not done:
            print(f"note: no {old} in {globs}")
    return changed


def replace_sections(root):
    """Puts the new tree's rooms into docs/architecture.md, in place of the old folders, their reasons and their sizes."""
    path = root / "docs/architecture.md"
    text = path.read_text(encoding="utf-8")
    begin, end = text.index("## Folders and their dependencies"), text.index("## From cuInit")
    text = text[:begin] + (HERE / "architecture.md").read_text(encoding="utf-8") + text[end:]
    path.write_text(text.replace("`engine/place` computes", "`src/host` computes"), encoding="utf-8")


def templates(root, table, folder):
    """Copies whole files. A line 'X.c' of a build file stands for the sources of X that there are now."""
    for path in sorted((HERE / folder).rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        if path.name == "meson.build":
            text = re.sub(r"^@if ([\w/.]+)@\n(.*?)^@end@\n", lambda m: m[2] if any((root / "src" / name).is_file() for name in sources(root, table, m[1][:-2], ".c")) else "", text,
                          flags=re.M | re.S)
            text = "".join(expanded(root, table, line) for line in text.splitlines(keepends=True))
        to = root / path.relative_to(HERE / folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
        shutil.copymode(path, to)


def known_flags(root, write):
    """Notes each build file of src that has changed, apart from its sources, since its successor was written."""
    known = HERE / "flags.txt"
    lines = known.read_text(encoding="utf-8").splitlines() if known.is_file() else []
    for path in sorted((root / "src").rglob("meson.build")):
        text = re.sub(r"^ *'\w+\.[ch]',( #.*)?\n", "", path.read_text(encoding="utf-8"), flags=re.M)
        line = f"{hashlib.sha256(text.encode()).hexdigest()[:12]} {path.relative_to(root)}"
        if line not in lines and write:
            lines.append(line)
        elif line not in lines:
            print(f"note: {path.relative_to(root)} has changed: look whether scripts/fold/build needs the change; then --flags")
    if write:
        known.write_text("\n".join(lines) + "\n", encoding="utf-8")


def sources(root, table, module, suffix):
    """Returns the files of a module that there are now: its own, or those of its parts."""
    parts = [old for old in table.modules.get(module, [module]) if (root / "src" / (old + suffix)).is_file()]
    return [part + suffix for part in parts] or [module + suffix]


# Modules that a folder's marker leaves out, because the build files name them.
NAMED = {"base/loader", "base/real_clock", "config/generate", "config/generate_fields", "host/private_env", "preload/hook/api", "preload/hook/entry",
         "tools/doctor/generate_checks", "tools/main", "tools/stacks/cmd_stacks"}


def expanded(root, table, line):
    found = re.fullmatch(r"( +)@([\w/]+)@\n", line)  # the modules of a folder, in the table's order
    if found:
        modules = [new for new in table.modules if new.rsplit("/", 1)[0] == found[2] and new not in NAMED]
        return "".join(f"{found[1]}'{name}',\n" for new in modules for name in sources(root, table, new, ".c")
                       if (root / "src" / name).is_file())
    found = re.fullmatch(r"( +)'([\w/]+)(\.[ch])',\n", line)
    if found and found[2] in table.olds and found[2] not in table.modules:
        return ""
    if found:
        return "".join(f"{found[1]}'{name}',\n" for name in sources(root, table, found[2], found[3]))
    return re.sub(r"@([\w/]+)\.h@", lambda m: (m[1] if (root / "src" / (m[1] + ".h")).is_file() else
                  next(new for new, olds in table.olds.items() if m[1] in olds)) + ".h", line)


def edit(root, name):
    """Applies edits: '== PATH', then blocks of old and new text between <<<<, ==== and >>>>. '== PATH ?': the file may be
    missing. <<<<?: the old text may be missing. '== delete PATH': deletes a file."""
    bad = []
    for file in re.split(r"^== ", (HERE / name).read_text(encoding="utf-8"), flags=re.M)[1:]:
        title, _, rest = file.partition("\n")
        if title.startswith("delete "):
            (root / title.split()[1]).unlink(missing_ok=True)
            continue
        path = root / title.split()[0]
        if not path.is_file():
            if not title.endswith("?"):
                bad.append(f"{title}: no such file")
            continue
        text = path.read_text(encoding="utf-8")
        for optional, old, new in re.findall(r"^<<<<(\??)\n(.*?)^====\n(.*?)^>>>>$", rest, re.M | re.S):
            if text.count(old) == 1:
                text = text.replace(old, new)
            elif not optional:
                bad.append(f"{title}: {text.count(old)} times, not once: {old!r}")
        path.write_text(text, encoding="utf-8")
    return bad


def rename_variables(root, words):
    """Renames variables in the build files outside src."""
    for folder in ("tests", "bench", "python"):
        for path in (root / folder).rglob("meson.build"):
            text = path.read_text(encoding="utf-8")
            for old, new in words:
                text = re.sub(rf"\b{old}\b", new, text)
            text = re.sub(r"\b(\w+_(?:lib|dep)), \1\b", r"\1", text)
            path.write_text(text, encoding="utf-8")


def format_c(root, paths):
    paths = [str(path) for path in paths if path.suffix in (".c", ".h") and path.is_file()]
    if paths and shutil.which("clang-format"):
        subprocess.run(["clang-format", "-i", *paths], cwd=root, check=True)


def main():
    parser = argparse.ArgumentParser(description="Folds src into the modules of scripts/fold/table.txt.")
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parents[1])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--room", action="append", default=[])
    parser.add_argument("--end", action="store_true")
    parser.add_argument("--flags", action="store_true", help="records that scripts/fold/build has all of the build files of src")
    options = parser.parse_args()
    root = options.root.resolve()
    if options.flags:
        known_flags(root, True)
        return 0
    everything = not (options.build or options.room or options.end)
    table = Table(root)
    unknown = table.check()
    if unknown:
        for name in unknown:
            print(f"src/{name}: no row in scripts/fold/table.txt names it", file=sys.stderr)
        return 1
    build, bad = everything or options.build, []
    if build:
        known_flags(root, False)
        for path in (root / "src").rglob("meson.build"):
            path.unlink()
    moved = table.files if build else {}
    fold = Fold(root, table, None if everything else options.room)
    made = fold.run({**moved, **(table.made if build else {})})
    changed = Mentions(fold, moved, table.made if build else {}).run()
    if everything or options.room:
        merge_calls(root)
    format_c(root, {*made, *changed})
    if build:
        rename_variables(root, table.words)
        bad += edit(root, "edits-build.txt")
    if everything or options.end:
        format_c(root, rename_words(root, table.lines("words.txt")))
        bad += edit(root, "edits-end.txt")
        templates(root, table, "end")
        replace_sections(root)
    templates(root, table, "build")
    if (root / "tests/lint/layers.py").is_file():
        subprocess.run([sys.executable, root / "tests/lint/tables.py", root, "--write"], check=True)
    for line in bad:
        print("error:", line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
