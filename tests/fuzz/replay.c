/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces libFuzzer: runs the target on every file of a folder, and prints one TAP line for each.
 */
#include "fuzz.h"

#include <dirent.h>

static void run_file(const char *folder, const char *name)
{
    static uint8_t data[1 << 16];
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    CHECK(file);
    const size_t size = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    int count = 0;

    CHECK(argc == 2);
    DIR *dir = opendir(argv[1]);
    CHECK(dir);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        run_file(argv[1], entry->d_name);
        printf("ok %d - %s\n", ++count, entry->d_name);
    }
    closedir(dir);
    printf("1..%d\n", count);
    return count == 0;
}
