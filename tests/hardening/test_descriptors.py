# SPDX-License-Identifier: Apache-2.0
"""A program takes fixed descriptor numbers by dup2, which the library must neither use nor close."""

import os

import pytest

from conftest import CUDA, SIM_DIR

EAGER = {"GPUFEED_STAGE_MIN": "65536", "GPUFEED_STAGE_THREADS": "4", "GPUFEED_STALL_US": "5"}
SECONDS, TURNS = os.environ.get("NUMBERS_SECONDS", "1"), os.environ.get("NUMBERS_TURNS", "1")


@pytest.fixture(scope="session")
def numbers(compile_here):
    return compile_here("numbers.c", "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1")


@pytest.mark.parametrize("logs", [False, True], ids=["no log", "log"])
@pytest.mark.parametrize("what", ["heap", "context"])
def test_numbers_stay_the_programs(run, numbers, tmp_path, what, logs):
    log = tmp_path / "log"
    done = run(numbers, SECONDS, TURNS, what, sim=True, timeout=900, GPUFEED_LOG=log if logs else "off", **EAGER)
    assert (done.returncode, done.stdout) == (0, "0 numbers were closed, 0 were in use\n"), done
    assert log.exists() == logs


CLAIM = r"""
#include <cuda.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define FILE_OF_CPUS "/sys/devices/system/cpu/possible"
static int is_own_thread(unsigned long id)
{
    char path[64];
    sprintf(path, "/proc/self/task/%lu", id);
    return access(path, F_OK) == 0;
}
static int claims(void)
{
    char line[256];
    struct stat file;
    unsigned long inode, at;
    int found = 0;
    FILE *locks = fopen("/proc/locks", "r");
    stat(FILE_OF_CPUS, &file);
    while (locks && fgets(line, sizeof(line), locks))
        if (strstr(line, "OFDLCK") && sscanf(strrchr(line, ':'), ":%lu %lu", &inode, &at) == 2)
            found |= inode == file.st_ino && is_own_thread(at % (1 << 22));
    fclose(locks);
    return found;
}
static int is_open(void)
{
    char path[300], target[300];
    int found = 0;
    DIR *table = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(table));) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, target, sizeof(target) - 1);
        target[length < 0 ? 0 : length] = 0;
        found |= !strcmp(target, FILE_OF_CPUS);
    }
    closedir(table);
    return found;
}
int main(void)
{
    const size_t size = 16 << 20;
    const time_t end = time(NULL) + 30;
    char *const source = calloc(1, size);
    CUcontext context;
    CUdeviceptr device;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuMemAlloc(&device, size);
    while (!claims() && time(NULL) < end)
        cuMemcpyHtoD(device, source, size);
    printf("claims=%d open=%d\n", claims(), is_open());
    return 0;
}
"""


@pytest.mark.skipif(not os.access("/proc/locks", os.R_OK) or len(os.sched_getaffinity(0)) < 2,
                    reason="no /proc/locks, or no second CPU for a copying thread")
def test_a_claim_of_cpus_is_in_no_table_of_the_program(run, compile_c):
    """Processes that copy hold a lock on a file in /sys. The descriptor belongs to a thread of the library."""
    program = compile_c(CLAIM, "-O1", "-isystem", CUDA, f"-L{SIM_DIR}", "-l:libcuda.so.1")
    assert run(program, sim=True, timeout=60).stdout == "claims=1 open=0\n"


FILL = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    int opened = 0, last = -1;
    free(malloc(8 << 20));
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0; last = fd)
        opened++;
    free(malloc(8 << 20));
    printf("%d files, last number %d, errno %d\n", opened, last, errno);
    return 0;
}
"""


@pytest.mark.parametrize("hard", ["4096", "soft"])
@pytest.mark.parametrize("soft", [5, 7, 40, 200, 1024])
def test_a_log_takes_no_descriptor_from_the_program(run, compile_c, tmp_path, soft, hard):
    """The program opens files until its limit."""
    limit = ["prlimit", f"--nofile={soft}:{soft if hard == 'soft' else hard}"]
    program = compile_c(FILL, "-fno-builtin", name="fill")
    run.alike(*limit, program, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=1)
    assert (tmp_path / "log").exists()


def test_a_log_leaves_a_shell_its_pipes(run, tmp_path):
    run.alike("prlimit", "--nofile=7:7", "bash", "-c", "echo text | cat; cat <(echo more) </dev/null",
              GPUFEED_LOG=tmp_path / "log")
