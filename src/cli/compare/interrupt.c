/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare/interrupt.h"

#include <signal.h>

static volatile sig_atomic_t pending;
static struct sigaction before;

static void on_interrupt(int number)
{
    (void)number;
    pending = 1;
}

void gf_interrupt_begin(void)
{
    const struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART */

    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

bool gf_interrupt_pending(void)
{
    return pending;
}

void gf_interrupt_end(void)
{
    sigaction(SIGINT, &before, NULL);
    if (pending)
        raise(SIGINT);
}
