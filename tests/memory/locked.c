/* SPDX-License-Identifier: Apache-2.0 */
/* The first malloc after RLIMIT_AS or RLIMIT_DATA ("as", "data") and mlockall: it must not populate much memory. */
#include "need.h"

#include <sys/mman.h>
#include <sys/resource.h>

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    const struct rlimit limit = {2048 * MIB, 2048 * MIB};
    const int of_data = argc > 1 && strcmp(argv[1], "data") == 0;
    if (setrlimit(of_data ? RLIMIT_DATA : RLIMIT_AS, &limit) || mlockall(MCL_CURRENT | MCL_FUTURE))
        return 77;
    const long before = peak_kib();
    char *block = malloc(100);
    const long after = peak_kib();
    need(block && after - before < 64 << 10, "the first malloc");
    free(block);
    passed("locked");
    return 0;
}
