/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "tools/common/cli.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct init_signals {
    sigset_t mask; /* the mask at the start */
    struct sigaction child, input, output;
};

/*
 * Blocks all signals, which serve() receives instead. Signals of this process's own faults stay
 * unblocked, because a fault with a blocked signal kills the process without a message.
 */
static void block_signals(struct init_signals *ret_old)
{
    static const int own[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGABRT, SIGTRAP, SIGSYS};
    const struct sigaction normal = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
    sigset_t all;

    sigfillset(&all);
    for (size_t i = 0; i < GF_ARRAY_LEN(own); i++)
        sigdelset(&all, own[i]);
    sigprocmask(SIG_SETMASK, &all, &ret_old->mask);
    /*
     * This process may have inherited that SIGCHLD is ignored. Then the kernel would discard exit
     * codes.
     */
    sigaction(SIGCHLD, &normal, &ret_old->child);
    /*
     * The child's process group owns the terminal, so these signals would stop this process when it
     * uses the terminal.
     */
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

/*
 * Makes the group that was in the foreground before the program's start the foreground group again,
 * so that a script continues to read the terminal. PID 1 ends with its namespace, and may have no
 * id of that group.
 */
static void return_terminal(pid_t program, pid_t before)
{
    if (before > 0 && getpid() != 1 && tcgetpgrp(STDIN_FILENO) == program)
        tcsetpgrp(STDIN_FILENO, before);
}

/*
 * Stops this process group, as the terminal's key for SIGTSTP would without an init, so that the
 * shell sees a stopped job. Returns when the group is continued. The kernel ignores the signal if
 * no shell could continue the group.
 */
static void stop_group(pid_t program, pid_t before)
{
    sigset_t stop;

    return_terminal(program, before);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(0, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* this process stops here */
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

/*
 * The terminal has stopped the program. If the program used the terminal, also stops this process
 * group. Then continues the program, in the foreground if this group is there.
 */
static void follow_stop(pid_t program, pid_t before)
{
    if (tcgetpgrp(STDIN_FILENO) == program)
        stop_group(program, before);
    else if (tcgetpgrp(STDIN_FILENO) != getpgrp())
        return;
    if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetpgrp(STDIN_FILENO, program);
    kill(-program, SIGCONT);
}

static bool is_terminal_stop(int status)
{
    return WIFSTOPPED(status) && (WSTOPSIG(status) == SIGTSTP || WSTOPSIG(status) == SIGTTIN ||
                                  WSTOPSIG(status) == SIGTTOU);
}

/*
 * Reaps all children that have ended. If the program is one of them, sets *ret_code and returns
 * true. Follows a stop of the program, except under PID 1, which behaves as tini does.
 */
static bool reap(pid_t program, pid_t before, int *ret_code)
{
    const int options = WNOHANG | (getpid() == 1 ? 0 : WUNTRACED);
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, options)) > 0) {
        if (pid == program && is_terminal_stop(status))
            follow_stop(program, before);
        if (pid != program || WIFSTOPPED(status))
            continue;
        ended = true;
        *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return ended;
}

static int serve(pid_t program, pid_t before)
{
    sigset_t all;
    int code = GF_EXIT_FAILED;

    sigfillset(&all);
    for (;;) {
        siginfo_t info;
        const int number = sigwaitinfo(&all, &info);
        if (number == SIGCHLD) {
            if (reap(program, before, &code))
                return code;
        } else if (number > 0) {
            kill(program, number);
        }
    }
}

bool gf_init_fork(int *ret_code)
{
    struct init_signals old;

    /*
     * PID 1 of a container becomes the parent of all orphans. Another process becomes the parent of
     * its orphaned descendants only if it asks for this.
     */
    if (getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    block_signals(&old);
    const pid_t before = tcgetpgrp(STDIN_FILENO);
    const pid_t program = fork();
    if (program > 0) {
        *ret_code = serve(program, before);
        return_terminal(program, before);
        return false;
    }
    if (program < 0)
        gf_cli_error("--init has no effect: cannot fork: %s", strerror(errno));
    else if (setpgid(0, 0) == 0) /* SIGTTOU, which would stop the child, is still ignored */
        tcsetpgrp(STDIN_FILENO, getpgrp()); /* may fail: there may be no terminal */
    restore_signals(&old);
    return true;
}
