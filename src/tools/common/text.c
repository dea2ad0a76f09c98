/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/text.h"

#include "base/fmt.h"
#include "os/procfs.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

char *gf_text(const char *format, ...)
{
    static char texts[1 << 20];
    static size_t at;
    va_list args;

    if (at + GF_TEXT_SIZE > sizeof(texts))
        at = 0;
    char *ret = texts + at;
    va_start(args, format);
    vsnprintf(ret, GF_TEXT_SIZE, format, args);
    va_end(args);
    gf_plain_text(ret); /* its last character may be cut */
    at += strlen(ret) + 1;
    return ret;
}

/* The file may change meanwhile, so no more bytes are read than it had. */
static char *read_bytes(int fd, size_t size, size_t *ret_length)
{
    char *text = malloc(size + 1);
    ssize_t got = 1;

    for (*ret_length = 0;
         text && got > 0 && *ret_length<size; *ret_length += got> 0 ? (size_t)got : 0)
        got = read(fd, text + *ret_length, size - *ret_length);
    if (text && got >= 0) {
        text[*ret_length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

char *gf_whole_file_read(const char *path, size_t most, size_t *ret_length)
{
    const int fd = gf_input_open(path);
    struct stat found;
    char *text = NULL;
    int error = fd < 0 ? -fd : 0;

    if (!error && fstat(fd, &found))
        error = errno;
    if (!error && (found.st_size < 0 || (size_t)found.st_size > most))
        error = EFBIG;
    if (!error && !(text = read_bytes(fd, (size_t)found.st_size, ret_length)))
        error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return text;
}

void gf_wrap(const char *label, const char *text, unsigned indent, unsigned width)
{
    size_t column = 0;

    while (*(text += strspn(text, " \n"))) {
        const size_t length = strcspn(text, " \n");
        if (column && column + 1 + length > width) {
            putchar('\n');
            column = 0;
            label = "";
        }
        column += (size_t)printf("%-*s%.*s", column ? 1 : (int)indent, column ? "" : label,
                                 (int)length, text);
        text += length;
    }
    putchar('\n');
}

unsigned gf_wrap_width(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 40)
        return 80;
    return gf_min(size.ws_col, 100);
}

static void print_escaped(FILE *out, const char *word)
{
    fputs("$'", out);
    for (; *word; word++) {
        if ((unsigned char)*word < ' ' || (unsigned char)*word >= 0x7f)
            fprintf(out, "\\%03o", (unsigned char)*word);
        else
            fprintf(out, "%s%c", strchr("'\\", *word) ? "\\" : "", *word);
    }
    fputc('\'', out);
}

void gf_shell_word(FILE *out, const char *word)
{
    const size_t plain =
        strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-");

    if (plain && !word[plain]) {
        fputs(word, out);
        return;
    }
    if (!gf_is_plain_text(word)) {
        print_escaped(out, word);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    }
    fputc('\'', out);
}

static uintptr_t page_size;

/* Returns where the mapping of this page ends; the end of the page if that is unknown. */
static uintptr_t find_end(uintptr_t page)
{
    char buf[4096 + 256];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    uintptr_t end = 0;

    if (!gf_procfs_lines_open(&lines, "/proc/self/maps"))
        return page + page_size;
    for (const char *line; end <= page && (line = gf_procfs_lines_next(&lines));) {
        const char *dash = lines.continued ? NULL : strchr(line, '-');
        end = dash ? strtoul(dash + 1, NULL, 16) : end;
    }
    gf_procfs_lines_close(&lines);
    return end > page ? end : page + page_size;
}

/*
 * Maps zero pages up to the end of the mapping, because the pages that follow are missing, too, and a process
 * has few mappings. If that fails, the default action is restored: the instruction faults again, and
 * the signal kills the process.
 */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const uintptr_t page = (uintptr_t)info->si_addr & ~(page_size - 1);
    if (info->si_code != BUS_ADRERR ||
        mmap((void *)page, find_end(page) - page, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL);
}

void gf_bus_error_survive(void)
{
    const struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigset_t bus_error;

    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, NULL);
    sigemptyset(&bus_error);
    sigaddset(&bus_error, SIGBUS);
    sigprocmask(SIG_UNBLOCK, &bus_error,
                NULL); /* the process may have inherited that it is blocked */
}

int gf_print_apart(void (*print)(const void *closure), const void *closure, int silence_ms)
{
    char text[4096];
    ssize_t got = 0;
    int ends[2];

    if (pipe(ends))
        return errno;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setlinebuf(stdout); /* so that a line that was printed is shown if the next one is not */
        print(closure);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    struct pollfd poller = {.fd = ends[0], .events = POLLIN};
    while (poll(&poller, 1, silence_ms) > 0 && (got = read(ends[0], text, sizeof(text))) > 0)
        fwrite(text, 1, (size_t)got, stdout);
    close(ends[0]);
    kill(child, SIGKILL);
    return got || !poller.revents ? ETIMEDOUT : 0;
}
