/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/init.h"

#include "cli/common/cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct init_signals {
    sigset_t mask; /* of the start */
    struct sigaction child, input, output;
};

/* Faults of this process itself are not blocked: a blocked one would kill it without a trace. */
static void block_signals(struct init_signals *ret_old)
{
    static const int own[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGABRT, SIGTRAP, SIGSYS};
    const struct sigaction normal = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
    sigset_t all;

    sigfillset(&all);
    for (size_t i = 0; i < GF_ARRAY_LEN(own); i++)
        sigdelset(&all, own[i]);
    sigprocmask(SIG_SETMASK, &all, &ret_old->mask);
    /* An ignored SIGCHLD, which may be inherited, would make the kernel discard exit codes. */
    sigaction(SIGCHLD, &normal, &ret_old->child);
    /* The child's group has the terminal. This process may still write to it. */
    sigaction(SIGTTIN, &ignored, &ret_old->input);
    sigaction(SIGTTOU, &ignored, &ret_old->output);
}

static void restore_signals(const struct init_signals *old)
{
    sigaction(SIGCHLD, &old->child, NULL);
    sigaction(SIGTTIN, &old->input, NULL);
    sigaction(SIGTTOU, &old->output, NULL);
    sigprocmask(SIG_SETMASK, &old->mask, NULL);
}

/* SIGTTOU is ignored here, so the kernel permits a background group to take the terminal. */
static void become_foreground_group(void)
{
    if (setpgid(0, 0) == 0)
        tcsetpgrp(STDIN_FILENO, getpgrp()); /* fails without a terminal, which is no error */
}

/* Waits for all children that have ended. True if the program was one: then *ret_code is set. */
static bool reap(pid_t program, int *ret_code)
{
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != program)
            continue;
        ended = true;
        *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return ended;
}

static int serve(pid_t program)
{
    sigset_t all;
    int code = GF_EXIT_FAILED;

    sigfillset(&all);
    for (;;) {
        siginfo_t info;
        const int number = sigwaitinfo(&all, &info);
        if (number == SIGCHLD) {
            if (reap(program, &code))
                return code;
        } else if (number > 0) {
            kill(program, number);
        }
    }
}

bool gf_init_fork(int *ret_code)
{
    struct init_signals old;

    /* Inside a container this is PID 1. Elsewhere the kernel hands over orphans only on request. */
    if (getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    block_signals(&old);
    const pid_t program = fork();
    if (program > 0) {
        *ret_code = serve(program);
        return false;
    }
    if (program == 0)
        become_foreground_group();
    else
        gf_cli_error("run", "--init has no effect: cannot fork: %s", strerror(errno));
    restore_signals(&old);
    return true;
}
