/* SPDX-License-Identifier: Apache-2.0 */
#include "os/thp.h"

#include "os/procfs.h"

#include <string.h>

bool gf_thp_chosen(const char *line, const char *word)
{
    const char *at = strchr(line, '[');
    const size_t length = strlen(word);
    return at && strncmp(at + 1, word, length) == 0 && at[1 + length] == ']';
}

#define FOLDER "sys/kernel/mm/transparent_hugepage/"

const char *const gf_thp_shared_files[2] = {FOLDER "hugepages-2048kB/shmem_enabled",
                                            FOLDER "shmem_enabled"};

/*
 * Linux 6.10 and later have a file for each page size, and one general file. The default in the
 * file of a size is "inherit", which means that the general file applies. "deny" in the general
 * file applies to all sizes.
 */
void gf_thp_read_shared(const char *root, struct gf_thp *ret)
{
    static const char *const words[] = {"always", "within_size", "advise", "force"};
    char of_size[sizeof(ret->line)], general[sizeof(ret->line)];
    const bool has_size =
        gf_procfs_read(of_size, sizeof(of_size), root, "%s", gf_thp_shared_files[0]) > 0;
    const bool has_general =
        gf_procfs_read(general, sizeof(general), root, "%s", gf_thp_shared_files[1]) > 0;
    const bool denied = has_general && gf_thp_chosen(general, "deny");
    const bool by_size = has_size && !denied && !gf_thp_chosen(of_size, "inherit");

    *ret = (struct gf_thp){0};
    if (!by_size && !has_general)
        return;
    ret->file = gf_thp_shared_files[by_size ? 0 : 1];
    memcpy(ret->line, by_size ? of_size : general, sizeof(ret->line));
    for (size_t i = 0; i < GF_ARRAY_LEN(words); i++)
        ret->on = ret->on || gf_thp_chosen(ret->line, words[i]);
}
