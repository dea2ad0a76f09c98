/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `gpufeed report`, in each of its forms, on files that claim to be a log or a report: cut lines,
 * foreign lines, control characters.
 */
#include "fuzz.h"

#include "base/fmt.h"
#include "tools/common/cli.h"

#include <sys/mman.h>
#include <unistd.h>

/* The output goes into a file. */
static int report(char *form, char *path, int to)
{
    char verb[] = "report", *argv[] = {verb, form, path, NULL};
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);

    fflush(stdout);
    CHECK(out >= 0 && error >= 0 && dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0);
    const int code = gf_cmd_report(3, argv);
    fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) >= 0 && dup2(error, STDERR_FILENO) >= 0);
    close(out);
    close(error);
    return code;
}

/* Each row names one of the stacks. */
static void check_stacks(const json_t *stacks)
{
    const size_t count = json_array_size(json_object_get(stacks, "stacks"));
    size_t i;
    json_t *row;

    CHECK(json_is_array(json_object_get(stacks, "rows")));
    json_array_foreach(json_object_get(stacks, "rows"), i, row)
        CHECK((size_t)json_integer_value(json_array_get(row, 1)) < count);
}

/* The JSON of a page begins and ends with a brace, and each thread, process and event has its row. */
static void check_page(const char *text)
{
    const char *data = strstr(text, "id=\"data\">"), *end = data ? strstr(data, "</script>") : NULL;
    size_t i;
    json_t *row;

    if (!data)
        return;
    CHECK(end);
    data = strchr(data, '>') + 1;
    json_t *page = json_loadb(data, (size_t)(end - data), 0, NULL);
    const size_t lanes = json_array_size(json_object_get(page, "lanes"));
    CHECK(page && json_is_object(json_object_get(page, "answer")));
    check_stacks(json_object_get(page, "stalled"));
    check_stacks(json_object_get(page, "idle"));
    json_array_foreach(json_object_get(page, "events"), i, row)
        CHECK(json_integer_value(json_array_get(row, 0)) < (json_int_t)lanes);
    json_array_foreach(json_object_get(json_object_get(page, "answer"), "verdict"), i, row)
        CHECK(json_is_string(row));
    json_decref(page);
}

/* The output is UTF-8 without control characters. */
static void check_text(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);

    CHECK(size >= 0 && text && pread(fd, text, (size_t)size, 0) == size &&
          !memchr(text, '\0', (size_t)size));
    text[size] = '\0';
    check_page(text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        CHECK(gf_is_plain_text(line));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char forms[][24] = {"--top=9",        "--events",     "--json",    "--folded",
                               "--by=thread",    "--rank=1,3-5", "--html=-",  "--perfetto=-",
                               "--prometheus=-", "--by=rank",    "--by=step", "--since=1s"};
    const int fd = memfd_create("log", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const int to = memfd_create("text", MFD_CLOEXEC);
        CHECK(to >= 0);
        const int code = report(forms[i], path, to);
        CHECK(code == GF_EXIT_OK || code == GF_EXIT_FAILED);
        check_text(to);
        close(to);
    }
    close(fd);
    return 0;
}
