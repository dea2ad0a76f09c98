/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/cli.h"

#include "base/fmt.h"
#include "base/parse.h"
#include "tools/common/text.h"

#include <stdarg.h>
#include <stdlib.h>

const char *gf_cli_verb = "";

int gf_cli_fail(int code, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    gf_plain_text(text);
    fprintf(stderr, "gpufeed%s%s: %s\n", *gf_cli_verb ? " " : "", gf_cli_verb, text);
    return code;
}

void gf_cli_report(void *unused, const char *line)
{
    (void)unused;
    gf_cli_error("%s", line);
}

void *gf_cli_memory(void *memory)
{
    if (!memory) {
        fputs("gpufeed: not enough memory\n", stderr);
        exit(GF_EXIT_FAILED);
    }
    return memory;
}

void *gf_cli_alloc(size_t count, size_t size)
{
    return gf_cli_memory(calloc(count ? count : 1, size));
}

void gf_cli_print_json(json_t *json)
{
    if (json_dumpf(gf_cli_memory(json), stdout, JSON_INDENT(2)) && !ferror(stdout))
        gf_cli_memory(NULL); /* main checks standard output for errors */
    putchar('\n');
    json_decref(json);
}

const char *gf_cli_machine_reason(const char *root, int error)
{
    const bool is_other = error == -ENOENT && *root && access(root, F_OK) == 0;

    return gf_text("cannot read %.900s: %s", *root ? root : "this machine",
                   is_other ? "`gpufeed topo --record` has not written this folder"
                            : strerror(-error));
}

static int unknown_flag(const char *word, const struct option *flags)
{
    char name[64];
    struct gf_nearest_word nearest;
    const bool is_long = word[1] == '-';
    const size_t length = is_long ? gf_min(strcspn(word + 2, "="), sizeof(name) - 1) : 0;

    memcpy(name, word + 2, length);
    name[length] = '\0';
    gf_nearest_word_begin(&nearest, name);
    for (; is_long && flags->name; flags++)
        gf_nearest_word_try(&nearest, flags->name, flags->name);
    if (nearest.found)
        return gf_cli_fail(GF_FLAG_INVALID, "--%s is not a flag (did you mean --%s?)", name,
                           nearest.found);
    return gf_cli_fail(GF_FLAG_INVALID, "%s%s is not a flag; `gpufeed %s --help` lists them",
                       is_long ? "--" : word, name, gf_cli_verb);
}

static const struct option *find_flag(const struct option *flags, const char *word)
{
    const size_t length = strcspn(word, "=");

    while (flags->name &&
           (strlen(flags->name) != length || strncmp(flags->name, word, length) != 0))
        flags++;
    return flags->name ? flags : NULL;
}

int gf_flags_next(struct gf_flags *reader)
{
    char accepted[16];
    const char *shorts = reader->shorts ? reader->shorts : "";
    const int at = reader->at ? reader->at : 1;
    const char *word = at < reader->argc ? reader->argv[at] : "";

    if (reader->ended)
        return GF_FLAG_END;
    opterr = 0;
    if (!reader->at)
        optind = 0; /* 0 resets glibc's getopt, which may have read another argv */
    /*
     * "+": flags end at the first operand. ":": getopt distinguishes a missing value from an unknown
     * flag.
     */
    reader->ended = at < reader->argc && strcmp(word, "--") == 0;
    snprintf(accepted, sizeof(accepted), "+:h%s", shorts);
    const int code = getopt_long(reader->argc, reader->argv, accepted, reader->flags, NULL);
    reader->at = optind;
    if (code == -1)
        return GF_FLAG_END;
    if (strcmp(word, "-h") == 0)
        return GF_FLAG_HELP;
    reader->flag = NULL;
    if (*word == '-' && word[1] && strchr(shorts, word[1]) && (code == ':' || code == word[1]))
        return code;
    reader->flag = strncmp(word, "--", 2) == 0 ? find_flag(reader->flags, word + 2) : NULL;
    if (!reader->flag)
        return unknown_flag(word, reader->flags);
    if (code == '?')
        return gf_cli_fail(GF_FLAG_INVALID, "--%s takes no value", reader->flag->name);
    if (code != ':' && reader->flag->has_arg && optarg == reader->argv[at + 1] &&
        strcmp(optarg, "--") == 0)
        return GF_FLAG_NO_VALUE;
    return code;
}

int gf_flags_excess(const char *word)
{
    return gf_cli_fail(GF_EXIT_USAGE, "unexpected argument %s; see `gpufeed help %s`", word,
                       gf_cli_verb);
}

bool gf_flags_read(struct gf_flags *reader, const struct gf_words *words, void *closure,
                   int *ret_code)
{
    *ret_code = GF_EXIT_OK;
    while (*ret_code == GF_EXIT_OK) {
        const int code = gf_flags_next(reader);
        if (code == GF_FLAG_HELP) {
            words->help();
            return false;
        }
        if (code == GF_FLAG_INVALID)
            *ret_code = GF_EXIT_USAGE;
        else if (code != GF_FLAG_END)
            *ret_code = words->flag(closure, code, reader);
        else if (words->leaves_rest && reader->ended)
            break;
        else if (reader->at >= reader->argc)
            break;
        else {
            const char *operand = reader->argv[reader->at++];
            optind = reader->at; /* gf_flags_next continues after it */
            *ret_code =
                words->operand ? words->operand(closure, operand) : gf_flags_excess(operand);
        }
    }
    return *ret_code == GF_EXIT_OK;
}
