/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder for a test's files, which the tested code uses as the root. */
#ifndef GF_TESTS_TEMP_ROOT_H
#define GF_TESTS_TEMP_ROOT_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/gpufeed-root-XXXXXX";

static inline int make_root(void **state)
{
    (void)state;
    memcpy(strrchr(root, '-') + 1, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

/* Writes text to a file below the folder, parent folders included. */
static inline void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#endif
