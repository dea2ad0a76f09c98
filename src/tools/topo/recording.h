/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cpus.h"

/* The kernel's cpufreq files of a CPU, whose values all CPUs of a policy share. */
#define GF_CPUFREQ "sys/devices/system/cpu/cpu%u/cpufreq/"

/*
 * Sets *ret to the CPUs that share this CPU's policy on the machine at root ("": this one), including
 * this CPU.
 */
void gf_cpufreq_policy(const char *root, unsigned cpu, struct gf_cpus *ret);

/*
 * Records this machine in the folder, which is created if it is missing. --machine and GPUFEED_MACHINE
 * read the folder instead of this system's files. Returns 0 or -errno.
 */
int gf_recording_write(const char *folder);
