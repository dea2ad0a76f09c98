/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TIME_LIMIT_H
#define TIME_LIMIT_H

#include <stdlib.h>
#include <unistd.h>

/* Ends the program by SIGALRM after so many seconds, or after KIT_ALARM on slow machines. */
static inline void time_limit(unsigned seconds)
{
    const char *longer = getenv("KIT_ALARM");
    alarm(longer ? (unsigned)strtoul(longer, NULL, 10) : seconds);
}

#endif
