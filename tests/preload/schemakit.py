# SPDX-License-Identifier: Apache-2.0
"""Checks JSON against the schemas of docs/schema. It supports only the keywords of JSON Schema that these schemas
use."""
import json
import pathlib

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema"

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


class Schema:
    """Collects errors of values, and the fields that occurred."""

    def __init__(self, name):
        self.whole = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
        self.seen = set()

    def errors(self, value):
        return list(self._errors(self.whole, value, ""))

    def fields(self):
        """Returns all fields of the schema. A field of a shared object counts once."""
        return set(self._fields(self.whole, "")).union(
            *(self._fields(shape, name) for name, shape in self.whole.get("$defs", {}).items()))

    def _fields(self, schema, path):
        for part in schema.get("anyOf", ()):
            yield from self._fields(part, path)
        for below in "items", "additionalProperties":
            if isinstance(schema.get(below), dict):
                yield from self._fields(schema[below], path)
        for name, part in schema.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from self._fields(part, f"{path}.{name}")

    def _errors(self, schema, value, path):
        if "$ref" in schema:
            path = schema["$ref"].rsplit("/", 1)[1]
            schema = self.whole["$defs"][path]
        if "oneOf" in schema or "anyOf" in schema:
            yield from self._best(schema.get("oneOf") or schema["anyOf"], value, path)
            return
        if "const" in schema and value != schema["const"] or value not in schema.get("enum", [value]):
            yield f"{path}: {value!r}"
        kind = schema.get("type")
        if kind in ("integer", "number"):
            if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)) or \
                    value < schema.get("minimum", value):
                yield f"{path}: {value!r} is no {kind}"
        elif kind and not isinstance(value, TYPES[kind]):
            yield f"{path}: {value!r} is no {kind}"
        elif kind == "array":
            for item in value:
                yield from self._errors(schema["items"], item, path)
        elif kind == "object":
            yield from self._members(schema, value, path)

    def _members(self, schema, value, path):
        known, rest = schema.get("properties", {}), schema["additionalProperties"]
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, part in value.items():
            if name in known:
                self.seen.add(f"{path}.{name}")
                yield from self._errors(known[name], part, f"{path}.{name}")
            elif rest is False:
                yield f"{path}.{name} is not in the schema"
            else:
                yield from self._errors(rest, part, path)

    def _best(self, schemas, value, path):
        """The errors of the alternative that fits best, and its fields."""
        before, found = self.seen, []
        for part in schemas:
            self.seen = set()
            found.append((list(self._errors(part, value, path)), self.seen))
        errors, seen = min(found, key=lambda one: len(one[0]))
        self.seen = before | seen
        yield from errors


REPORT, LOG = Schema("report.json"), Schema("log.json")


def read_report(path):
    """Checks that a report has all required fields of its schema, and no others."""
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    assert REPORT.errors(report) == []
    return report


def read_log(path):
    """Checks the lines of a log in the same way."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    assert [error for line in lines for error in LOG.errors(line)] == []
    return lines
