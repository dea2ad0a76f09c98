# SPDX-License-Identifier: Apache-2.0
"""Renders the fields of a JSON output, docs/schema/*.def, as Markdown tables and as a JSON schema. Rows of such a file:

    GF_SCHEMA(title, number)   once, first; the number is a macro of src/abi/formats.h
    GF_SECTION(title, text)    a heading of the documentation
    GF_EVENT(name, text)       begins the fields of one kind of line; fields before the first event are in every line
    GF_SHAPE(name, text)       begins the fields of an object; other fields use its name as their type
    GF_FIELD(path, type, unit, presence, text)

path: the names of the objects that contain the field, outermost first, and the field's name, separated by dots. The row of
a list or map precedes the rows of its elements. The paths of these rows begin with the path of the list or map.
type: a key of TYPES, "map of" a type, words (a|b|c), or the name of a shape.
presence: always, null (may be null), absent (may be missing), or both."""
import collections
import json
import re

ROW = re.compile(r"^GF_(SCHEMA|SECTION|EVENT|SHAPE|FIELD)\((.*?)\)$", re.M | re.S)
COUNT = {"type": "integer", "minimum": 0}
# type: its name in Markdown, its members in the JSON schema; None: the rows below give them
TYPES = {
    "bool": ("bool", {"type": "boolean"}),
    "int": ("integer", {"type": "integer"}),
    "count": ("integer", COUNT),
    "number": ("number", {"type": "number", "minimum": 0}),
    "text": ("text", {"type": "string"}),
    "cpus": ("CPU list", {"type": "string"}),
    "numbers": ("list of integers", {"type": "array", "items": {"type": "integer"}}),
    "texts": ("list of texts", {"type": "array", "items": {"type": "string"}}),
    "counts": ("integers by name", {"type": "object", "additionalProperties": COUNT}),
    "schema": ("integer", None),
    "object": ("object", None),
    "list": ("list of objects", None),
    "map": ("objects by name", None),
}
Row = collections.namedtuple("Row", "kind path type unit presence text")


def arguments(text):
    """Returns the arguments of a macro, with neighbouring strings joined."""
    found = [""]
    for string, comma, word in re.findall(r'"((?:[^"\\]|\\.)*)"|(,)|(\w+)', text):
        if comma:
            found.append("")
        else:
            found[-1] += word or re.sub(r"\\(.)", r"\1", string)
    return found


class Fields:
    def __init__(self, path, formats):
        self.common, self.scopes, self.rows = [], {}, []
        scope = self.common
        for kind, text in ROW.findall(path.read_text(encoding="utf-8")):
            words = arguments(text)
            if kind == "SCHEMA":
                self.title = words[0]
                self.number = int(re.search(rf"#define {words[1]} (\d+)", formats)[1])
                continue
            row = Row(kind, *words) if kind == "FIELD" else Row(kind, words[0], "", "", "", words[1])
            self.rows.append(row)
            if kind in ("EVENT", "SHAPE"):
                scope = self.scopes[row] = []
            elif kind == "FIELD":
                scope.append(row)
        self.shapes = {row.path for row in self.scopes if row.kind == "SHAPE"}

    # Markdown

    def type_name(self, kind):
        if kind.startswith("map of "):
            return self.type_name(kind.removeprefix("map of ")) + ", by name"
        if "|" in kind:
            return "`" + kind.replace("|", "`, `") + "`"
        if kind in self.shapes:
            return f"[{kind}](#{kind.replace(' ', '-')})"
        return TYPES[kind][0]

    @staticmethod
    def place(row, scope):
        """Returns the path of a row, with "[]" after each list and ".*" after each map."""
        kinds, parts, text = {other.path: other.type for other in scope}, row.path.split("."), ""
        for i, part in enumerate(parts[:-1]):
            kind = kinds[".".join(parts[:i + 1])]
            text += part + ("[]" if kind == "list" else ".*" if kind.startswith("map") else "") + "."
        return text + parts[-1]

    def markdown(self):
        lines, scope, first_shape = [], self.common, True
        for row in self.rows:
            if row.kind == "FIELD":
                value = self.type_name(row.type) + (f", {row.unit}" if row.unit else "")
                value += ", or `null`" * ("null" in row.presence) + "; may be absent" * ("absent" in row.presence)
                lines.append(f"| `{self.place(row, scope)}` | {value} | {row.text} |")
                continue
            if row.kind == "SHAPE" and first_shape:
                lines += ["", "## Objects that several fields hold"]
            first_shape = first_shape and row.kind != "SHAPE"
            scope = self.scopes.get(row, scope)
            lines += [""] * bool(lines) + [("###" if row.kind == "SHAPE" else "##") + " " + row.path]
            lines += [row.text] * bool(row.text) + ["", "| field | value | meaning |", "|---|---|---|"]
        return lines

    # JSON schema. Each field is one line, unless it has fields of its own.

    def value(self, row, scope, depth):
        kind = row.type
        if kind.startswith("map of "):
            return '"type": "object", "additionalProperties": {' + self.value(row._replace(type=kind[7:]), scope, depth) + "}"
        if kind == "schema":
            return f'"const": {self.number}'
        if "|" in kind:
            return '"enum": ' + json.dumps(kind.split("|"))
        if kind in self.shapes:
            return f'"$ref": "#/$defs/{kind}"'
        if TYPES[kind][1]:
            return json.dumps(TYPES[kind][1])[1:-1]
        inner = self.object(scope, row.path, depth)
        if kind == "list":
            return '"type": "array", "items": {' + inner + "}"
        return '"type": "object", "additionalProperties": {' + inner + "}" if kind == "map" else inner

    @staticmethod
    def plain(text):
        """Returns a text as a JSON string, without the markup of `code` and [link](target)."""
        return json.dumps(re.sub(r"\]\([^)]*\)|[`\[]", "", text), ensure_ascii=False)

    def field(self, row, scope, depth):
        text = f'"{row.path.split(".")[-1]}": {{"description": {self.plain(row.text)}'
        text += f', "x-unit": "{row.unit}"' if row.unit else ""
        value = self.value(row, scope, depth)
        return text + (f', "anyOf": [{{{value}}}, {{"type": "null"}}]}}' if "null" in row.presence else f", {value}}}")

    def object(self, scope, prefix, depth, event=None):
        """Returns the members of an object's schema. That of a line with an event has the fields that every line has."""
        def below(rows, before):
            return [row for row in rows if row.path.startswith(before) and "." not in row.path[len(before):]]

        shared = below(self.common, "") if event else []
        own = below(scope, prefix + "." if prefix else "")
        required = [row.path.split(".")[-1] for row in shared + own if "absent" not in row.presence]
        lines = [f'"event": {{"const": "{event}"}}' if row.path == "event" else self.field(row, self.common, depth + 2) for row in shared]
        lines += [self.field(row, scope, depth + 2) for row in own]
        space = "\n" + "  " * (depth + 1)
        return ('"type": "object", "additionalProperties": false,' + space + '"required": ' + json.dumps(required) + "," + space +
                '"properties": {' + ",".join(space + "  " + line for line in lines) + space + "}")

    def schema(self):
        head = f'{{\n  "$schema": "https://json-schema.org/draft/2020-12/schema",\n  "title": "{self.title}",\n  '
        events = [row.path for row in self.scopes if row.kind == "EVENT"]
        if events:
            head += '"oneOf": [' + ", ".join(f'{{"$ref": "#/$defs/{name}"}}' for name in events) + "]"
        else:
            head += self.object(self.common, "", 0)
        parts = []
        for row, scope in self.scopes.items():
            text = f'\n    "{row.path}": {{' + (f'"description": {self.plain(row.text)}, ' if row.text else "")
            parts.append(text + self.object(scope, "", 2, row.path if row.kind == "EVENT" else None) + "}")
        return head + (',\n  "$defs": {' + ",".join(parts) + "\n  }" if parts else "") + "\n}\n"
