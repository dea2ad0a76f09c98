/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/top/top.h"

#include "base/fmt.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct termios saved;
static bool opened;

/* Async-signal-safe. */
static void restore(void)
{
    static const char show[] = "\033[?25h\n";

    tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    if (write(STDOUT_FILENO, show, sizeof(show) - 1) < 0)
        return;
}

static void on_end(int number)
{
    restore();
    raise(number); /* SA_RESETHAND has restored the default action */
}

/* Does nothing: the signal interrupts the wait, and the next screen has the new width. */
static void on_resize(int number)
{
    (void)number;
}

static void catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction end = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
    const struct sigaction resize = {.sa_handler = on_resize};

    for (size_t i = 0; i < GF_ARRAY_LEN(ends); i++)
        sigaction(ends[i], &end, NULL);
    sigaction(SIGWINCH, &resize, NULL);
}

bool gf_screen_open(void)
{
    struct termios raw;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &saved))
        return false;
    raw = saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    catch_signals();
    opened = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    if (opened)
        fputs("\033[?25l", stdout);
    return opened;
}

void gf_screen_close(void)
{
    if (!opened)
        return;
    fflush(stdout);
    restore();
    opened = false;
}

unsigned gf_screen_width(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool gf_screen_wait(unsigned wait_ms)
{
    struct pollfd input = {.fd = opened ? STDIN_FILENO : -1, .events = POLLIN};
    char key;

    if (poll(&input, 1, (int)wait_ms) <= 0)
        return true;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
}

#define LINE_MAX_BYTES 640
#define GAP 2
/* Columns are dropped until the program has this space. */
#define PROGRAM_LEAST 24
#define GPU_LEAST 40 /* with less space, the program's GPU would leave too little for its name */

static const struct {
    const char *title;
    int width; /* negative: the text is at the left */
} columns[] = {
    [gf_column_pid] = {"PID", 7},
    [gf_column_rank] = {"RANK", 4},
    [gf_column_ran] = {"RAN", -8},
    [gf_column_steps] = {"STEPS/S", 7},
    [gf_column_idle] = {"IDLE", 6},
    [gf_column_why_idle] = {"WHY IDLE", -11},
    [gf_column_to_gpu] = {"TO GPU MiB/s", 12},
    [gf_column_from_gpu] = {"FROM MiB/s", 10},
    [gf_column_stalled] = {"STALLED", 7},
    [gf_column_most_time] = {"MOST TIME", -10},
    [gf_column_bound] = {"BOUND", -5},
};

/* The columns that a narrow terminal lacks, the least important first. */
static const enum gf_column dropped[] = {
    gf_column_bound, gf_column_most_time, gf_column_ran,   gf_column_from_gpu, gf_column_to_gpu,
    gf_column_rank,  gf_column_stalled,   gf_column_steps, gf_column_why_idle,
};

static unsigned width_of(enum gf_column column)
{
    const int width = columns[column].width;
    return (unsigned)(width < 0 ? -width : width) + GAP;
}

/*
 * Decides which columns are shown: a bit for each. Returns the space that is left for the program.
 */
static unsigned choose_columns(unsigned width, unsigned *ret_shown)
{
    unsigned used = 0;

    *ret_shown = (1u << gf_column_count) - 1;
    if (!width)
        return UINT32_MAX;
    for (enum gf_column i = 0; i < gf_column_count; i++)
        used += width_of(i);
    for (size_t i = 0; i < GF_ARRAY_LEN(dropped) && used + PROGRAM_LEAST > width; i++) {
        *ret_shown &= ~(1u << dropped[i]);
        used -= width_of(dropped[i]);
    }
    return width - gf_min(used, width);
}

bool gf_columns_fit_gpu(unsigned width)
{
    unsigned shown;
    return choose_columns(width, &shown) >= GPU_LEAST;
}

void gf_columns_print_line(char *line, unsigned width)
{
    if (width && strlen(line) > width)
        line[width] = '\0';
    printf("%s\n", gf_plain_text(line));
}

/* A text that is wider than its column moves the next ones to the right. */
static void say_cell(struct gf_textbuf *out, enum gf_column column, const char *text)
{
    const int width = columns[column].width;

    if (width < 0)
        gf_say(out, "%-*s%*s", -width, text, GAP, "");
    else
        gf_say(out, "%*s%*s", width, text, GAP, "");
}

void gf_columns_print(const char *const cells[gf_column_count], const char *program, unsigned width)
{
    char line[LINE_MAX_BYTES];
    struct gf_textbuf text = {.buf = line, .size = sizeof(line)};
    unsigned shown;

    choose_columns(width, &shown);
    for (enum gf_column i = 0; i < gf_column_count; i++)
        if (shown >> i & 1)
            say_cell(&text, i, cells[i]);
    gf_say(&text, "%s", program);
    gf_columns_print_line(line, width);
}

void gf_columns_print_header(unsigned width)
{
    const char *titles[gf_column_count];

    for (enum gf_column i = 0; i < gf_column_count; i++)
        titles[i] = columns[i].title;
    gf_columns_print(titles, gf_columns_fit_gpu(width) ? "GPU AND COMMAND" : "COMMAND", width);
}
