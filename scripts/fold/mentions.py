# SPDX-License-Identifier: Apache-2.0
"""Rewrites what other files say of the files that move."""

from parts import *


class Mentions:
    """Rewrites paths and names of moved files in all tracked files."""

    PATH = re.compile(r"(?<![\w./-])((?:\$?\{?\w*\}?/)?(?:build/)?src/)?([A-Za-z_][\w-]*(?:/[\w<>.*-]*[\w>*])*)")

    def __init__(self, fold, moved, made):
        self.fold, self.root = fold, fold.root
        self.files = {**fold.map, **moved, **made}
        self.files = {old: new for old, new in self.files.items() if old != new}
        for old, new in list(self.files.items()):
            if re.search(r"_(x86_64|aarch64)\.S$", old):
                self.files[re.sub(r"_(x86_64|aarch64)\.S", "_<arch>.S", old)] = re.sub(r"_(x86_64|aarch64)\.S", "_<arch>.S", new)
        self.modules = {old: new for old, new in fold.new.items() if old != new}
        self.folders = self.map_folders(moved)
        self.names = collections.defaultdict(set)
        for old in {**fold.map, **moved}:
            self.names[old.rsplit("/", 1)[-1]].add(old)
        self.others = {path.name for path in fold.tracked() if fold.src not in path.parents}
        self.present = {path.name for path in fold.src.rglob("*")}
        self.notes = set()

    def map_folders(self, moved):
        """An old folder stands for the new folder that has most of its modules."""
        votes = collections.defaultdict(collections.Counter)
        for old, new in [*self.fold.new.items(), *moved.items()]:
            folder = old
            while "/" in folder:
                folder = folder.rsplit("/", 1)[0]
                votes[folder][new.rsplit("/", 1)[0]] += 1
        found = {folder: counted.most_common(1)[0][0] for folder, counted in votes.items()}
        found.update({"cli": "tools", "stacks": "tools/stacks", "engine/machine/private": "host", "cli/report": "tools/report",
                      "base/loader": "base", "base/pystack": "base", "preload/hook/attach": "preload/attach"})
        return {old: new for old, new in found.items() if not (self.fold.src / old).is_dir() and old != new
                and (self.fold.src / new).is_dir()}

    def path(self, found):
        prefix, name = found[1] or "", found[2]
        if name in self.files and (prefix or "/" in name):
            return prefix + self.files[name]
        if prefix and name in self.modules:
            return prefix + self.modules[name]
        if prefix and name in self.folders:
            return prefix + self.folders[name]
        if prefix:  # a file that the build makes, or a pattern
            folder, _, last = name.rpartition("/")
            if folder in self.folders and not (self.fold.src / name).exists() and (
                    "build" in prefix or "<" in last or "*" in last or not re.search(r"\.\w+$", last)):
                return f"{prefix}{self.folders[folder]}/{last}"
        return found[0]

    def segments(self, found):
        words = re.findall(r"[\"']([^\"']+)[\"']", found[1])
        quote = found[1].strip(" /")[0]
        for count in range(len(words), 0, -1):
            old = "/".join(words[:count])
            new = self.files.get(old) or self.folders.get(old)
            if new:
                words = [*new.split("/"), *words[count:]]
                break
        else:
            return found[0]
        return f"{quote}src{quote}" + "".join(f" / {quote}{word}{quote}" for word in words)

    def bare(self, path):
        """Returns the function that replaces a file's name without its folder."""
        inside = self.fold.src in path.parents
        folder = self.home.get(path, path).parent if inside else None

        def replace(found):
            name = found[0]
            olds = self.names.get(name)
            if not olds:
                return name
            near = {old for old in olds if inside and (self.fold.src / old).parent in (folder, *self.origins.get(path, ()))}
            olds = near or olds
            news = {self.files.get(old, old).rsplit("/", 1)[-1] for old in olds}
            if len(olds) > 1 or not inside and name in self.others or not near and name in self.present and news != {name}:
                if news != {name}:
                    self.notes.add(f"{path.relative_to(self.root)}: {name} may be {' or '.join(sorted(olds))}")
                return name
            old = next(iter(olds))
            return self.files.get(old, old).rsplit("/", 1)[-1]

        return replace

    def text(self, path, text):
        original = text
        text = "\n".join(line if path in self.fold.made and INCLUDE.match(line) else self.PATH.sub(self.path, line)
                         for line in text.split("\n"))  # the #include lines of new modules are right already
        text = re.sub(r"[\"']src[\"']((?: / [\"'][\w.-]+[\"'])+)", self.segments, text)
        name = re.compile(r"(?<![\w/.<>-])\w+(?:_<arch>)?\.(?:c|h|S|def)\b(?!\.)")
        replace = self.bare(path)
        if path.suffix in (".c", ".h", ".S", ".def"):
            parts = [part if code or part[0] != "/" else name.sub(replace, part) for code, part in lexed(text)]
            text = "".join(parts)
            text = self.once(text)
        elif path.name == "calls.py":
            text = name.sub(replace, text)
        elif path.suffix == ".md" and path.name != "NOTES.md":
            new = re.sub(r"`[^`\n]+`", lambda m: name.sub(replace, m[0]), text)
            text = "\n".join(line if line == old else self.each_once(line)
                             for line, old in zip(new.split("\n"), original.split("\n")))
        return text

    @staticmethod
    def each_once(line):
        """Drops repeated names from lists such as `a`, `b` and `a`."""
        def shorter(found):
            items = re.findall(r"(`[^`]+`)(, and | and | or |, |)", found[0])
            names = list(dict.fromkeys(name for name, _ in items))
            if len(names) == len(items):
                return found[0]
            last = [sep for _, sep in items if sep and sep != ", "]
            return names[0] if len(names) == 1 else ", ".join(names[:-1]) + (last[-1] if last else ", ") + names[-1]

        return re.sub(r"`[\w/.<>-]+`(?:(?:, and |, | and | or )`[\w/.<>-]+`)+", shorter, line)

    @staticmethod
    def once(text):
        """Drops #include lines of headers that were there before."""
        seen, lines = set(), []
        for line in text.split("\n"):
            found = INCLUDE.match(line)
            if found and found[2].endswith(".h"):
                if line in seen:
                    continue
                seen.add(line)
            lines.append(line)
        return "\n".join(lines)

    def run(self):
        self.origins = collections.defaultdict(set)
        for old, new in self.fold.map.items():
            self.origins[self.fold.src / new].add((self.fold.src / old).parent)
        self.home = {}
        changed = []
        for path in self.fold.tracked():
            if path.suffix not in TEXT or path.name in ("CHANGELOG.md", "LICENSE", ".git-blame-ignore-revs"):
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            new = self.text(path, text)
            if new != text:
                path.write_text(new, encoding="utf-8")
                changed.append(path)
        for note in sorted(self.notes):
            print("note:", note)
        return changed
