# SPDX-License-Identifier: Apache-2.0
"""Checks each command, flag, variable, test and file that the documents name (docs.py).

A command is an indented line or a span between backticks. A verb and its flags must be in `gpufeed VERB --help`. A
program of this repository must exist, and its source must contain each flag that follows it. `meson test` must select
tests of the build, and `meson compile` its targets. An option must be in options.def, with the value that follows it,
and another variable in the sources. A file that is named without its folder must exist in some folder. bench/NOTES.md
is left out, because it describes past experiments.

Also checks tests/meson.build: each test of src has a room, and each name there is a test."""
import json
import pathlib
import re
import shlex
import subprocess

FOLDERS = ("bench", "build", "cross", "docs", "examples", "include", "packaging", "python", "scripts", "src", "tests")
SOURCES = (".c", ".h", ".S", ".py", ".sh", ".def", ".build", ".ini", ".syms", ".in")
VARIABLE = re.compile(r"\b(?:GPUFEED|GF|SIM|KIT|CONFORM|SOAK)_[A-Z0-9_]*[A-Z0-9]\b(?![<*({])")
FILE = re.compile(r"`([\w-]+\.(?:c|h|S|py|sh|def|syms|build))(?::\d+)?`")
FLAG = re.compile(r"--[a-z][a-z0-9-]*")
TESTS = re.compile(r"\btests?((?:,? ?(?:and |or )?`[a-z]\w*`)+)")
SUITES = re.compile(r"\bsuites?((?:,? ?(?:and |or )?`[a-z]\w*`)+)")
ASSIGNED = re.compile(r"\b(GPUFEED(?:_[A-Z]+)*)=([a-z]+)\b(?![-%./])")
EXTERNAL = {"edata.h", "GPUFEED_SERVICE_HOST"}  # of jemalloc; of Kubernetes
ENDS = ("|", "&&", "||", ";", "&", ">", "<", "2>", ">>", "--")
# Words that follow `meson test` and `meson compile` and take a value.
VALUED = ("-C", "--suite", "--no-suite", "-t", "--num-processes")


class Tree:
    """What the sources and the build contain."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.files = [path for folder in FOLDERS if folder != "build" for path in (root / folder).rglob("*")
                      if path.is_file() and "__pycache__" not in path.parts]
        self.names = {path.name for path in self.files}
        texts = [(path, self.read(path)) for path in self.files if path.suffix in SOURCES]
        self.words = {word for _, text in texts for word in re.findall(r"\w+", text)}
        self.words_of_src = {word for path, text in texts if root / "src" in path.parents for word in re.findall(r"\w+", text)}
        self.values = self.choices((root / "src/config/options.def").read_text(encoding="utf-8"))
        self.tests = {test["name"] for test in self.introspected("tests")}
        # Some suites need a cross compiler or packages, so this build may lack them.
        self.suites = {name for path, text in texts if path.name == "meson.build"
                       for words in re.findall(r"suite: (?:\[([^\]]*)\]|('\w+'))|^  ('\w+'): \[|(\['long'\])", text, re.M)
                       for name in re.findall(r"'(\w+)'", " ".join(words))}
        self.targets = self.introspected("targets")
        self.made = {pathlib.Path(name): target for target in self.targets for name in target["filename"]}
        self.help = {}

    @staticmethod
    def choices(options):
        """Returns the words that each option of one word accepts, by its variable."""
        joined = options.replace("\\\n", " ")
        words = {token: set(re.findall(rf"X\({token}, (\w+)\)", line))
                 for token, line in re.findall(r"#define GF_CHOICES_(\w+)\(X\)(.*)", joined)}
        rows = re.findall(r'GF_CHOICE\((\w+), "(GPUFEED\w*)",', joined)
        return {variable: words[token] for token, variable in rows}

    def introspected(self, what):
        return json.loads((self.build / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))

    def verb_help(self, verb):
        """Returns the help of a verb of gpufeed, or None if there is no such verb."""
        if verb not in self.help:
            done = subprocess.run([self.build / "src/tools/gpufeed", "help", verb], capture_output=True, text=True, check=False)
            self.help[verb] = done.stdout if done.returncode == 0 else None
        return self.help[verb]

    def source_of(self, program):
        """Returns the source text of a program, with the Python modules that it imports. None if it does not exist."""
        if program.startswith("build/"):
            made = self.made.get(self.build / program.removeprefix("build/"))
            return made and "".join(self.read(name) for part in made["target_sources"] for name in part.get("sources", ()))
        path = self.root / program
        if not path.exists():
            return None
        return self.python(path, set()) if path.suffix == ".py" else self.read(path)

    def python(self, path, seen):
        seen.add(path)
        text = self.read(path)
        modules = re.findall(r"^\s*(?:import|from) (\w+)", text, re.M)
        found = {path.parent / f"{name}.py" for name in modules} | {self.root / "bench" / f"{name}.py" for name in modules}
        return text + "".join(self.python(module, seen) for module in found if module.exists() and module not in seen)

    @staticmethod
    def read(path):
        path = pathlib.Path(path)
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def spans(text):
    """Yields each command line and each span between backticks."""
    fenced = False
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip()
        else:
            yield from re.findall(r"`([^`]+)`", line)


def commands(span):
    """Yields each simple command of a span as a list of words, without variables that are set before it."""
    try:
        words = shlex.split(span, comments=True)
    except ValueError:  # an apostrophe of a sentence: an example of output, not a command
        return
    command = []
    for word in [*words, ";"]:
        word = word.removeprefix("$(")
        if word in ENDS:
            yield command
            command = []
        elif not command and (re.match(r"\w+=", word) or word in ("sudo", "$", "srun", "export")):
            continue
        else:
            command.append(word.rstrip(")"))


def check_gpufeed(tree, words):
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is None or not re.fullmatch(r"[a-z][a-z-]*", verb):
        return
    text = tree.verb_help(verb)
    if text is None:
        yield f"gpufeed has no verb {verb}"
        return
    for flag in (match[0] for word in words if (match := FLAG.match(word))):
        if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text) and flag != "--help":
            yield f"`gpufeed {verb} --help` has no {flag}"


def check_meson(tree, words):
    known = tree.tests if words[0] == "test" else {target["name"] for target in tree.targets}
    skip = None
    for word in words[1:]:
        if skip == "--suite" and word not in tree.suites:
            yield f"no test is in the suite {word}"
        elif skip is None and not word.startswith("-") and word.split(":")[0] not in known:
            yield f"meson {words[0]}: {word} is none of the build's"
        skip = word if skip is None and word in VALUED else None


def check_program(tree, program, words):
    text = tree.source_of(program)
    if text is None:
        yield f"{program} is not there"
        return
    for flag in (match[0] for word in words if (match := FLAG.match(word))):
        if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text) and flag != "--help":
            yield f"{program} has no {flag}"
    if program == "bench/device.sh":
        yield from (f"{program} has no stage {word}" for word in words
                    if word.islower() and not (tree.root / "tests/gpu" / f"stage_{word}.py").exists())


def check_command(tree, words):
    for at, word in enumerate(words):
        name = word.removeprefix("./")
        if word == "gpufeed" or name.endswith("/src/tools/gpufeed"):
            yield from check_gpufeed(tree, words[at + 1:])
            return
        if word == "meson" and words[at + 1:at + 2] and words[at + 1] in ("test", "compile"):
            yield from check_meson(tree, words[at + 1:])
            return
        if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]+\w", name) and re.search(r"\.(?:py|sh)$|^build/(?:tests|bench)/", name):
            yield from check_program(tree, name, words[at + 1:])
            return


def faults(tree, document):
    text = document.read_text(encoding="utf-8")
    for span in spans(text):
        for words in commands(span):
            yield from check_command(tree, words)
    for name in VARIABLE.findall(text):
        if name not in (tree.words_of_src if name.startswith("GPUFEED") else tree.words) | EXTERNAL:
            yield f"{name} is no variable of the sources"
    for name, value in ASSIGNED.findall(text):
        if value not in tree.values.get(name, {value}):
            yield f"{name} has no value {value}"
    for name in FILE.findall(text):
        if name not in tree.names | EXTERNAL:
            yield f"{name} is in no folder"
    for pattern, known in (TESTS, tree.tests), (SUITES, tree.suites):
        for names in pattern.findall(text):
            yield from (f"{name} is no test or suite of the build" for name in re.findall(r"`(\w+)`", names)
                        if name not in known)


def room_faults(tree, root):
    """Yields the tests without a room, and the names that are no tests."""
    text = (root / "tests" / "meson.build").read_text(encoding="utf-8")
    rooms = dict(re.findall(r"^  '(\w+)': \[([^\]]*)\]", text, re.M))
    for name in re.findall(r"'(\w+)'", " ".join(rooms.values())):
        if name not in tree.tests:
            yield f"{name} is no test"
    for test in tree.introspected("tests"):
        suites = {suite.rpartition(":")[2] for suite in test["suite"]}
        if suites & {"unit", "preload", "fuzz"} and not suites & set(rooms):
            yield f"the test {test['name']} has no room"


def check(root, build):
    tree = Tree(root, build)
    documents = [path for pattern in ("*.md", "docs/*.md", "bench/RESULTS.md", "tests/*/*.md", "examples/*.md", "src/**/*.md")
                 for path in sorted(root.glob(pattern))]
    bad = [f"{document.relative_to(root)}: {fault}" for document in documents
           for fault in dict.fromkeys(faults(tree, document))]
    return bad + [f"tests/meson.build: {fault}" for fault in room_faults(tree, root)]
