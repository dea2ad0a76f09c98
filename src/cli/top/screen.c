/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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

void gf_screen_clear(void)
{
    fputs("\033[H\033[J", stdout);
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
