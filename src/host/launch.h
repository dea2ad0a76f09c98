/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers, OpenMP runtimes and frameworks say about placement in environment and arguments. */
#ifndef GF_HOST_LAUNCH_H
#define GF_HOST_LAUNCH_H

#include "host/facts.h"

/* The value of a variable in envp; NULL when absent. */
const char *gf_launch_variable(char *const *envp, const char *name);

void gf_launch_rank(char *const *envp, struct gf_rank *ret);
/* Sets single_cpu_pinning and pinning_source. */
void gf_launch_pinning(char *const *envp, struct gf_facts *ret);
/* Sets binder_source. */
void gf_launch_binder(const char *root, char *const *envp, struct gf_facts *ret);

#endif
