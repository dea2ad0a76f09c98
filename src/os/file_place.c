/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file_place.h"

#include "base/output_file.h"

#include <sys/stat.h>
#include <sys/statfs.h>

enum gf_file_place gf_file_place_of(const char *path)
{
    gf_keep_errno();
    enum gf_file_place ret = gf_file_place_unknown;
    struct stat file;
    struct statfs system;

    if (stat(path, &file) == 0) {
        if (!S_ISREG(file.st_mode))
            ret = gf_file_place_stream;
        else if (statfs(path, &system) == 0)
            ret = gf_is_network_fs((unsigned long)system.f_type) ? gf_file_place_network
                                                                 : gf_file_place_local;
    }
    return ret;
}
