/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build runs this program to document the fields of a JSON output, as Markdown tables (md) or
 * as a JSON schema (json). The macro GF_FIELDS names the file that lists the fields.
 * GF_SCHEMA_HEADER names the header that defines the schema's number. The file of GF_FIELDS
 * consists of these rows:
 *
 *   GF_SCHEMA(title, number)   once, first
 *   GF_SECTION(title, text)    a heading of the documentation
 *   GF_EVENT(name, text)       begins the fields of one kind of line; fields before the first event are
 *                              in every line
 *   GF_SHAPE(name, text)       begins the fields of an object; other fields use its name as their type
 *   GF_FIELD(path, type, unit, presence, text)
 *
 * path: the names of the objects that contain the field, outermost first, and the field's name,
 * separated by dots. The row of a list or map precedes the rows of its elements. The paths of these
 * rows begin with the path of the list or map.
 * type: bool, int, count (an integer from 0 on), number, text, cpus (a list such as 0-3,8), numbers or
 * texts (a list of them), object, list (of objects), map (of objects by name), counts (numbers by
 * name), schema (the schema's number), a|b|c (one of these words), the name of a shape, or "map of" one
 * of these.
 * presence: always, null (may be null), absent (may be missing), or both.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include GF_SCHEMA_HEADER

enum kind { KIND_SECTION, KIND_EVENT, KIND_SHAPE, KIND_FIELD };

struct row {
    enum kind kind;
    /* The path of a field; otherwise the name or title of a section, event or shape. */
    const char *path;
    const char *type, *unit, *presence, *text;
};

#define GF_SCHEMA(title, number)
#define GF_SECTION(title, text) {KIND_SECTION, title, NULL, NULL, NULL, text},
#define GF_EVENT(name, text) {KIND_EVENT, name, NULL, NULL, NULL, text},
#define GF_SHAPE(name, text) {KIND_SHAPE, name, NULL, NULL, NULL, text},
#define GF_FIELD(path, type, unit, presence, text) {KIND_FIELD, path, type, unit, presence, text},
static const struct row rows[] = {
#include GF_FIELDS
};
#undef GF_SCHEMA
#undef GF_SECTION
#undef GF_EVENT
#undef GF_SHAPE
#undef GF_FIELD

#define GF_SCHEMA(title, number) title, number
#define GF_SECTION(title, text)
#define GF_EVENT(name, text)
#define GF_SHAPE(name, text)
#define GF_FIELD(path, type, unit, presence, text)
static const struct {
    const char *title;
    int number;
} schema = {
#include GF_FIELDS
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/*
 * A range of rows: those before the first event or shape, or those of one event or shape without
 * the row that begins it.
 */
struct scope {
    size_t begin, end;
};

static bool begins_scope(size_t i)
{
    return rows[i].kind == KIND_EVENT || rows[i].kind == KIND_SHAPE;
}

static struct scope scope_from(size_t begin)
{
    struct scope scope = {begin, begin};
    while (scope.end < ROWS && !begins_scope(scope.end))
        scope.end++;
    return scope;
}

static bool is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

/* The text after "map of "; NULL for other types. */
static const char *map_values(const char *type)
{
    return strncmp(type, "map of ", 7) == 0 ? type + 7 : NULL;
}

static bool is_map(const char *type)
{
    return is(type, "map") || map_values(type);
}

static bool is_shape(const char *type)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kind == KIND_SHAPE && is(rows[i].path, type))
            return true;
    return false;
}

static bool has(const struct row *row, const char *presence)
{
    return strstr(row->presence, presence);
}

/* Output as Markdown. */

static void md_words(const char *type)
{
    putchar('`');
    for (; *type; type++)
        fputs(*type == '|' ? "`, `" : (char[]){*type, '\0'}, stdout);
    putchar('`');
}

static void md_anchor(const char *name)
{
    printf("[%s](#", name);
    for (; *name; name++)
        putchar(*name == ' ' ? '-' : *name);
    putchar(')');
}

static void md_type(const char *type)
{
    static const char *const names[][2] = {
        {"count", "integer"},       {"int", "integer"},    {"numbers", "list of integers"},
        {"texts", "list of texts"}, {"cpus", "CPU list"},  {"list", "list of objects"},
        {"map", "objects by name"}, {"schema", "integer"}, {"counts", "integers by name"},
    };

    if (map_values(type)) {
        md_type(map_values(type));
        fputs(", by name", stdout);
        return;
    }
    if (strchr(type, '|')) {
        md_words(type);
        return;
    }
    if (is_shape(type)) {
        md_anchor(type);
        return;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is(type, names[i][0])) {
            fputs(names[i][1], stdout);
            return;
        }
    fputs(type, stdout);
}

/*
 * Finds the row whose path equals the first `length` characters of `path`. Only the event or shape
 * to which row `index` belongs is searched.
 */
static const struct row *container(size_t index, const char *path, size_t length)
{
    for (size_t i = index; i-- > 0 && !begins_scope(i);)
        if (rows[i].kind == KIND_FIELD && strlen(rows[i].path) == length &&
            strncmp(rows[i].path, path, length) == 0)
            return &rows[i];
    fprintf(stderr, "%s: no field contains it\n", path);
    return NULL;
}

/* Writes the path of a row, with "[]" after each list and ".*" after each map. */
static bool md_path(size_t index)
{
    const char *path = rows[index].path, *from = path;

    for (const char *dot; (dot = strchr(from, '.')); from = dot + 1) {
        const struct row *row = container(index, path, (size_t)(dot - path));
        if (!row)
            return false;
        printf("%.*s%s.", (int)(dot - from), from,
               is(row->type, "list") ? "[]"
               : is_map(row->type)   ? ".*"
                                     : "");
    }
    fputs(from, stdout);
    return true;
}

static bool md_field(size_t index)
{
    const struct row *row = &rows[index];

    fputs("| `", stdout);
    if (!md_path(index))
        return false;
    fputs("` | ", stdout);
    md_type(row->type);
    if (*row->unit)
        printf(", %s", row->unit);
    if (has(row, "null"))
        fputs(", or `null`", stdout);
    if (has(row, "absent"))
        fputs("; may be absent", stdout);
    printf(" | %s |\n", row->text);
    return true;
}

static bool md_all(void)
{
    bool shapes = false;

    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        if (row->kind == KIND_FIELD) {
            if (!md_field(i))
                return false;
            continue;
        }
        if (row->kind == KIND_SHAPE && !shapes)
            puts("\n## Objects that several fields hold");
        shapes = shapes || row->kind == KIND_SHAPE;
        printf("%s%s %s\n", i ? "\n" : "", row->kind == KIND_SHAPE ? "###" : "##", row->path);
        if (*row->text)
            printf("%s\n", row->text);
        puts("\n| field | value | meaning |\n|---|---|---|");
    }
    return true;
}

/* Output as a JSON schema. */

static void json_indent(unsigned depth)
{
    printf("\n%*s", (int)(2 * depth), "");
}

/* Writes a text as a JSON string, without the markup of `code` and [link](target). */
static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == ']' && text[1] == '(')
            text += strcspn(text, ")");
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if (*text != '`' && *text != '[')
            putchar(*text);
    }
    putchar('"');
}

static void json_words(const char *type)
{
    fputs("\"enum\": [\"", stdout);
    for (; *type; type++)
        fputs(*type == '|' ? "\", \"" : (char[]){*type, '\0'}, stdout);
    fputs("\"]", stdout);
}

/* Writes the schema of a simple type; false if the type has fields. */
static bool json_simple(const char *type)
{
    static const char *const members[][2] = {
        {"bool", "\"type\": \"boolean\""},
        {"int", "\"type\": \"integer\""},
        {"count", "\"type\": \"integer\", \"minimum\": 0"},
        {"number", "\"type\": \"number\", \"minimum\": 0"},
        {"text", "\"type\": \"string\""},
        {"cpus", "\"type\": \"string\""},
        {"numbers", "\"type\": \"array\", \"items\": {\"type\": \"integer\"}"},
        {"texts", "\"type\": \"array\", \"items\": {\"type\": \"string\"}"},
        {"counts",
         "\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\", \"minimum\": 0}"},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (is(type, members[i][0])) {
            fputs(members[i][1], stdout);
            return true;
        }
    if (is(type, "schema"))
        printf("\"const\": %d", schema.number);
    else if (strchr(type, '|'))
        json_words(type);
    else if (is_shape(type))
        printf("\"$ref\": \"#/$defs/%s\"", type);
    else
        return false;
    return true;
}

static void json_object(struct scope scope, const char *prefix, const char *event, unsigned depth);

static void json_value(struct scope scope, const struct row *row, unsigned depth)
{
    if (json_simple(row->type))
        return;
    if (map_values(row->type)) {
        fputs("\"type\": \"object\", \"additionalProperties\": {", stdout);
        json_simple(map_values(row->type));
        putchar('}');
    } else if (is(row->type, "list")) {
        fputs("\"type\": \"array\", \"items\": {", stdout);
        json_object(scope, row->path, NULL, depth);
        putchar('}');
    } else if (is(row->type, "map")) {
        fputs("\"type\": \"object\", \"additionalProperties\": {", stdout);
        json_object(scope, row->path, NULL, depth);
        putchar('}');
    } else {
        json_object(scope, row->path, NULL, depth);
    }
}

static void json_field(struct scope scope, const struct row *row, const char *name, unsigned depth)
{
    const bool nullable = has(row, "null");

    json_indent(depth);
    printf("\"%s\": {\"description\": ", name);
    json_text(row->text);
    if (*row->unit)
        printf(", \"x-unit\": \"%s\"", row->unit);
    fputs(nullable ? ", \"anyOf\": [{" : ", ", stdout);
    json_value(scope, row, depth);
    fputs(nullable ? "}, {\"type\": \"null\"}]}" : "}", stdout);
}

/* Returns the field's name if its path consists of the prefix and one more name, otherwise NULL. */
static const char *name_below(const struct row *row, const char *prefix)
{
    const size_t length = strlen(prefix);

    if (row->kind != KIND_FIELD || strncmp(row->path, prefix, length) != 0 ||
        (length && row->path[length] != '.'))
        return NULL;
    const char *name = row->path + length + (length != 0);
    return strchr(name, '.') ? NULL : name;
}

static void json_fields(struct scope scope, const char *prefix, const char *event, bool *first,
                        unsigned depth)
{
    for (size_t i = scope.begin; i < scope.end; i++) {
        const char *name = name_below(&rows[i], prefix);
        if (!name)
            continue;
        fputs(*first ? "" : ",", stdout);
        *first = false;
        if (event && is(name, "event")) {
            json_indent(depth);
            printf("\"event\": {\"const\": \"%s\"}", event);
        } else {
            json_field(scope, &rows[i], name, depth);
        }
    }
}

static void json_required(struct scope scope, const char *prefix, bool *first)
{
    for (size_t i = scope.begin; i < scope.end; i++) {
        const char *name = name_below(&rows[i], prefix);
        if (!name || has(&rows[i], "absent"))
            continue;
        printf("%s\"%s\"", *first ? "" : ", ", name);
        *first = false;
    }
}

/*
 * Writes the members of an object's schema. If `event` is not NULL, the schema describes a line
 * with this event, so it also gets the fields that every line has.
 */
static void json_object(struct scope scope, const char *prefix, const char *event, unsigned depth)
{
    const struct scope common = scope_from(0);
    bool first = true;

    fputs("\"type\": \"object\", \"additionalProperties\": false,", stdout);
    json_indent(depth + 1);
    fputs("\"required\": [", stdout);
    if (event)
        json_required(common, "", &first);
    json_required(scope, prefix, &first);
    fputs("],", stdout);
    json_indent(depth + 1);
    fputs("\"properties\": {", stdout);
    first = true;
    if (event)
        json_fields(common, "", event, &first, depth + 2);
    json_fields(scope, prefix, NULL, &first, depth + 2);
    json_indent(depth + 1);
    putchar('}');
}

static void json_defs(enum kind kind)
{
    bool first = true;

    fputs(",\n  \"$defs\": {", stdout);
    for (size_t i = 0; i < ROWS; i++) {
        if (!begins_scope(i))
            continue;
        fputs(first ? "" : ",", stdout);
        first = false;
        json_indent(2);
        printf("\"%s\": {", rows[i].path);
        if (*rows[i].text) {
            fputs("\"description\": ", stdout);
            json_text(rows[i].text);
            fputs(", ", stdout);
        }
        json_object(scope_from(i + 1), "", kind == KIND_EVENT ? rows[i].path : NULL, 2);
        putchar('}');
    }
    fputs("\n  }", stdout);
}

static void json_all(void)
{
    enum kind kind = KIND_FIELD;
    bool first = true;

    for (size_t i = 0; i < ROWS && kind == KIND_FIELD; i++)
        kind = begins_scope(i) ? rows[i].kind : KIND_FIELD;
    printf("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
           "  \"title\": \"%s\",\n  ",
           schema.title);
    if (kind == KIND_EVENT) {
        fputs("\"oneOf\": [", stdout);
        for (size_t i = 0; i < ROWS; i++) {
            if (rows[i].kind != KIND_EVENT)
                continue;
            printf("%s{\"$ref\": \"#/$defs/%s\"}", first ? "" : ", ", rows[i].path);
            first = false;
        }
        putchar(']');
    } else {
        json_object(scope_from(0), "", NULL, 0);
    }
    if (kind != KIND_FIELD)
        json_defs(kind);
    puts("\n}");
}

int main(int argc, char **argv)
{
    bool done = argc == 2;

    if (done && is(argv[1], "md")) {
        done = md_all();
    } else if (done && is(argv[1], "json")) {
        json_all();
    } else {
        fputs("usage: generate_fields md|json\n", stderr);
        return 2;
    }
    return !done || fflush(stdout) || ferror(stdout);
}
