/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/transfer/pinned/pinned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char maps[] =
    "1000-3000 rw-p 00000000 00:00 0 \n"
    "3000-5000 rw-p 00000000 00:00 0                          [heap]\n"
    "5000-6000 rw-p 00000000 00:00 0                          [anon:buffer]\n"
    "7000-8000 rw-p 00000000 00:00 0 \n"
    "8000-9000 r--p 00000000 00:00 0 \n"
    "9000-a000 rw-p 00000000 00:00 0 \n"
    "a000-b000 rw-s 00000000 00:01 4711                       /dev/zero (deleted)\n"
    "b000-c000 rw-p 00001000 08:01 815                        /tmp/a file\n"
    "c000-d000 rw-s 00000000 00:05 0                          /dev/nvidia0\n"
    "d000-e000 rw-p 00000000 00:00 0 \n"
    "e000-f000 ---p 00000000 00:00 0 \n"
    "10000-11000 rw-s 00000000 00:01 1                        /memfd:cache (deleted)\n"
    "11000-12000 rw-s 00001000 00:1a 2                        /dev/shm/cache\n"
    "12000-13000 rw-s 00000000 00:01 3                        /SYSV00000000 (deleted)\n"
    "13000-14000 rw-s 00000000 00:0f 4                        /anon_hugepage (deleted)\n"
    "14000-15000 rw-s 00000000 08:01 5                        /tmp/dev/shm/cache\n"
    "15000-16000 r--s 00000000 00:01 1                        /memfd:cache (deleted)\n"
    "16000-17000 rw-p 00000000 00:01 1                        /memfd:cache (deleted)\n"
    "7f0000000000-7f0000400000 rw-p 00000000 00:00 0";

static char path[] = "/tmp/gpufeed-maps-XXXXXX";

static void says(uintptr_t start, uintptr_t end, bool plain)
{
    assert_true(gf_prefault_is_plain(path, start, end) == plain);
}

static void only_plain_memory_is_prefaulted(void **state)
{
    (void)state;
    says(0x1000, 0x3000, true);
    says(0x1000, 0x6000, true);
    says(0x2800, 0x2801, true);
    says(0x1000, 0x8000, false); /* a hole */
    says(0x0800, 0x2000, false);
    says(0x7000, 0x8000, true);
    says(0x7000, 0x9000, false); /* read-only */
    says(0x8000, 0x8800, false);
    says(0x9000, 0xa000, true);
    says(0x9000, 0xb000, true);  /* shared memory, too */
    says(0xb000, 0xc000, false); /* a file */
    says(0xc000, 0xd000, false); /* a device */
    says(0xd000, 0xe000, true);
    says(0xd000, 0xf000, false); /* no access */
    says(0xf000, 0xf100, false);
    says(0x10000, 0x14000, true);
    says(0x10000, 0x14001, false); /* a file on a disk */
    says(0x15000, 0x16000, false); /* read-only */
    says(0x16000, 0x17000, false); /* private pages of a file */
    assert_false(gf_prefault_is_plain("/nonexistent", 0x1000, 0x2000));
}

static void lines_across_reads(void **state)
{
    char line[512];
    (void)state;
    FILE *file = fopen(path, "w");
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "%x-%x rw-p 00000000 00:00 0   [anon:%0*d]\n", i << 12,
                 (i + 1) << 12, (int)(i * 7 % 61) + 1, 0);
        fputs(line, file);
    }
    fclose(file);
    says(0x1000, 1000 << 12, true);
    says(0x1000, (1000 << 12) + 1, false);
}

static void present_memory_is_not_prefaulted(void **state)
{
    const size_t size = 1 << 20;
    (void)state;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, size, MADV_NOHUGEPAGE);
    assert_true(gf_prefault_pays(at, size));
    memset(at, 1, size * 3 / 4);
    assert_false(gf_prefault_pays(at, size));
    munmap(at, size);
    assert_false(gf_prefault_pays(at, size));
    assert_false(gf_prefault_pays(at, SIZE_MAX));
}

static int write_maps(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || write(fd, maps, strlen(maps)) != (ssize_t)strlen(maps) || close(fd);
}

static int remove_maps(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_memory_is_prefaulted),
        cmocka_unit_test(lines_across_reads),
        cmocka_unit_test(present_memory_is_not_prefaulted),
    };
    return cmocka_run_group_tests_name("prefault", tests, write_maps, remove_maps);
}
