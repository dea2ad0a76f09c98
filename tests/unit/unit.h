/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka.h needs these headers before it. */
#ifndef GF_TESTS_UNIT_H
#define GF_TESTS_UNIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <unistd.h>

/* Ends the running test as skipped. tap.py adds the reason to the test's line of TAP. */
#define skip_because(reason)                                                                       \
    do {                                                                                           \
        print_message("# reason: %s\n", reason);                                                   \
        skip();                                                                                    \
    } while (0)

/* Waits until the kernel no longer knows a thread. It may know a joined thread for a moment. */
static inline void await_end_of(pid_t tid)
{
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        usleep(1000);
}
#endif

/* A struct gf_textbuf that writes into the array, which is emptied first. */
#define GF_TEST_INTO(array) (*(array) = '\0', &(struct gf_textbuf){array, sizeof(array), 0})
