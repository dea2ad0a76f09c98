/* SPDX-License-Identifier: Apache-2.0 */
/* Lets SIGINT end a comparison, whose finished pairs are then printed. */
#ifndef GF_CLI_COMPARE_INTERRUPT_H
#define GF_CLI_COMPARE_INTERRUPT_H

#include "base/base.h"

/* From now on, SIGINT interrupts system calls, unless the caller of the command ignores it. */
void gf_interrupt_begin(void);

/* Whether SIGINT was received. */
bool gf_interrupt_pending(void);

/* Restores SIGINT's action. If SIGINT was received, it now ends this process. */
void gf_interrupt_end(void);

#endif
