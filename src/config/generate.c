/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build runs this program to write the documentation of the options from options.def, so that
 * it always matches the parser. `generate man|md|bash` writes the list of options. `generate
 * man|md|bash TEMPLATE` writes the template, with the line "@OPTIONS@" replaced by the list,
 * @FLAGS@ by the flags alone and @VERSION@ by the version.
 */
#include "base/parse.h"
#include "config/option_text.h"
#include "config/options.h"

#include <stdio.h>

/*
 * Writes a text as roff, one sentence per line, as is usual there. Dashes are escaped, because roff
 * would print them as hyphens.
 */
static void print_roff(const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            putchar('\\');
        putchar(*text);
        if (*text == '.' && text[1] == ' ') {
            putchar('\n');
            text++;
        }
    }
}

static void man_row(const struct gf_option_row *row)
{
    char form[256], flag[GF_OPTION_FLAG_MAX];

    printf(".TP\n.BR \\-\\-");
    print_roff(gf_option_flag(row, flag, sizeof(flag)));
    printf(" = \"");
    print_roff(gf_option_text_allowed(row, true, form, sizeof(form)));
    printf("\" \", \" %s\n", row->name);
    print_roff(row->help);
    printf(" (default: %s).\n", *row->fallback ? row->fallback : "none");
    print_roff(row->text);
    putchar('\n');
}

static void man_section(const char *title)
{
    printf(".SS %s\n", title);
}

static void md_row(const struct gf_option_row *row)
{
    char form[256], flag[GF_OPTION_FLAG_MAX];

    printf("| `%s` | `--%s` | ", row->name, gf_option_flag(row, flag, sizeof(flag)));
    for (const char *c = gf_option_text_allowed(row, true, form, sizeof(form)); *c; c++)
        fputs(*c == '|' ? ", " : (char[]){*c, '\0'}, stdout);
    printf(" | %s | %s |\n", *row->fallback ? row->fallback : "none", row->help);
}

static void md_section(const char *title)
{
    printf("| **%s** | | | | |\n", title);
}

/*
 * A range of more than NUMBERS_MAX numbers is not completed, because bash would list all of them.
 */
#define NUMBERS_MAX 65

static void bash_numbers(uint64_t low, uint64_t high)
{
    fputs("words=\"", stdout);
    for (uint64_t i = low; high - low < NUMBERS_MAX && i <= high; i++)
        printf("%s%lu", i > low ? " " : "", i);
    puts("\"");
}

static void bash_row(const struct gf_option_row *row)
{
    char flag[GF_OPTION_FLAG_MAX];

    printf("        --%s)\n            ", gf_option_flag(row, flag, sizeof(flag)));
    switch (row->kind) {
    case gf_option_choice:
    case gf_option_list:
        fputs(row->kind == gf_option_list ? "words=\"off all " : "words=\"", stdout);
        for (size_t i = 0; row->choices[i]; i++)
            printf("%s%s", i ? " " : "", row->choices[i]);
        puts("\"");
        break;
    case gf_option_number:
        bash_numbers(row->low, row->high);
        break;
    case gf_option_size:
        puts("words=auto");
        break;
    case gf_option_path:
        puts("files=yes");
        break;
    case gf_option_names:
        puts("words=off");
        break;
    }
    puts("            ;;");
}

static const struct format {
    const char *name;
    void (*row)(const struct gf_option_row *row);
    void (*section)(const char *title);
    const char *head;
} formats[] = {
    {"man", man_row, man_section, NULL},
    {"md", md_row, md_section,
     "| variable | flag of `gpufeed run` | values | default | |\n|---|---|---|---|---|"},
    {"bash", bash_row, NULL, NULL},
};

static void print_list(const struct format *format)
{
    size_t section = 0;

    if (format->head)
        puts(format->head);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        for (; section < gf_option_section_count && gf_option_sections[section].first == i;
             section++)
            if (format->section)
                format->section(gf_option_sections[section].title);
        format->row(&gf_option_rows[i]);
    }
}

/* Writes all flags on one line, separated by spaces. */
static void print_flags(void)
{
    char flag[GF_OPTION_FLAG_MAX];

    for (size_t i = 0; i < GF_OPTION_COUNT; i++)
        printf("--%s= ", gf_option_flag(&gf_option_rows[i], flag, sizeof(flag)));
}

/* Writes one line of the template with its @WORDS@ replaced. */
static void expand_line(const struct format *format, const char *line)
{
    while (*line) {
        if (strncmp(line, "@OPTIONS@\n", 10) == 0) {
            print_list(format);
            line += 10;
        } else if (strncmp(line, "@VERSION@", 9) == 0) {
            fputs(GF_VERSION, stdout);
            line += 9;
        } else if (strncmp(line, "@FLAGS@", 7) == 0) {
            print_flags();
            line += 7;
        } else {
            putchar(*line++);
        }
    }
}

static int expand_file(const struct format *format, const char *name)
{
    char line[1024];
    FILE *template = fopen(name, "re");

    if (!template) {
        perror(name);
        return 1;
    }
    while (fgets(line, sizeof(line), template))
        expand_line(format, line);
    fclose(template);
    return 0;
}

/*
 * Whether the parser accepts the default of each option. The documentation shows a default as
 * options.def spells it. So a size that is spelled as a C expression is an error, because users
 * could not write it.
 */
static bool are_defaults_valid(void)
{
    uint64_t bytes;
    bool ret = true;

    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const struct gf_option_row *row = &gf_option_rows[i];
        if (row->kind != gf_option_size || strcmp(row->fallback, "auto") == 0 ||
            (gf_parse_size(row->fallback, &bytes) == 0 && bytes >= row->low && bytes <= row->high))
            continue;
        fprintf(stderr,
                "options.def: the default %s of %s is not a size. Write it as users do: 64M\n",
                row->fallback, row->name);
        ret = false;
    }
    return ret;
}

int main(int argc, char **argv)
{
    if (!are_defaults_valid())
        return 1;
    for (size_t i = 0; argc >= 2 && argc <= 3 && i < GF_ARRAY_LEN(formats); i++) {
        if (strcmp(argv[1], formats[i].name) != 0)
            continue;
        if (argc == 2)
            print_list(&formats[i]);
        else if (expand_file(&formats[i], argv[2]))
            return 1;
        return fflush(stdout) || ferror(stdout);
    }
    fputs("usage: generate man|md|bash [TEMPLATE]\n", stderr);
    return 2;
}
