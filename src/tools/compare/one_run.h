/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the command in an arm, with the GPUs' clocks; interrupts. */
#pragma once

#include "base/base.h"
#include "tools/compare/figures.h"

/* The two arms of a comparison: the environment variables of their runs. */
#define GF_ARM_VARIABLES 32

struct gf_arm {
    char name[32];
    const char *variables[GF_ARM_VARIABLES + 1]; /* "VAR=VALUE"; ends with NULL */
};

struct gf_arms {
    struct gf_arm list[2];
    size_t count;
};

/*
 * Parses "NAME:VAR=VALUE", and adds the variable to the arm NAME, which is created if necessary.
 * "NAME:" adds an arm without a variable. The arms point into `text`, which must stay valid.
 * Returns 0, or -EINVAL after printing an error.
 */
int gf_arms_add(struct gf_arms *arms, const char *text);

/*
 * If no arm was added, adds the default arms, observe and on. Returns 0, or -EINVAL after printing
 * an error if there is only one arm.
 */
int gf_arms_finish(struct gf_arms *arms);

/*
 * Clocks and temperatures of the machine's GPUs while a command runs. A thread reads them by NVML
 * twice per second, and skips idle GPUs. Sums over readings: without NVML or a busy GPU, `readings`
 * is 0.
 */
struct gf_gpu_clock {
    double readings;
    double mhz;     /* sum of the multiprocessors' clocks */
    double celsius; /* highest temperature */
    double limited; /* number of readings at which heat or the power limit lowered the clock */
};

/* Adds `more`. */
void gf_gpu_clock_add(struct gf_gpu_clock *clock, const struct gf_gpu_clock *more);

#include <limits.h>

/*
 * Lets SIGINT end a comparison, whose finished pairs are then printed. It interrupts system calls,
 * unless the caller of the command ignores it.
 */
void gf_interrupt_begin(void);

/* Restores SIGINT's action. If SIGINT was received, it now ends this process. */
void gf_interrupt_end(void);

struct gf_run_folder {
    char path[PATH_MAX]; /* for the command's processes */
    int fd;
};

struct gf_one_run {
    double wall_s; /* time from the fork to the command's end */
    struct gf_figures figures;
    struct gf_gpu_clock clock;
};

/*
 * Runs the command by `gpufeed run` with the arm's variables, and waits for its end. Reports and
 * output go into the folder, which is emptied afterwards. Returns 0 or -errno. If the command
 * cannot be run or fails, prints the reason and the last lines of its output. SIGINT ends the
 * command, and the result is -EINTR.
 */
int gf_one_run(const struct gf_arm *arm, char *const *command, const struct gf_run_folder *folder,
               struct gf_one_run *ret);
